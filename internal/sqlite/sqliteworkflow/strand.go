package sqliteworkflow

import (
	"context"
	"database/sql"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// followingSQL finds the definition after one.
	followingSQL = `
		SELECT workflow, version FROM {prefix}workflow_runs
		WHERE (workflow, version) > (?1, ?2)
		ORDER BY workflow, version LIMIT 1`

	livingSQL = `
		SELECT 1 FROM {prefix}workflow_definitions
		WHERE workflow = ?1 AND version = ?2 AND at > ?3 LIMIT 1`

	strandedSQL = `
		SELECT id FROM {prefix}workflow_runs
		WHERE workflow = ?1 AND version = ?2 AND status = 'running' AND due < ?3 AND hold = ''
		ORDER BY due LIMIT ?4`

	holdUnknownSQL = `UPDATE {prefix}workflow_runs SET hold = 'unknown', error = ?2` + stillStranded

	failUnknownSQL = `
		UPDATE {prefix}workflow_runs SET status = 'failed', error = ?2, completed = ?4,
			expires = ?4 + retention * ` + dayText + `, due = NULL, event = '', match = NULL, epoch = epoch + 1` + stillStranded

	stillStranded = `
		WHERE id = ?1 AND status = 'running' AND due < ?3 AND hold = ''`

	// The number of these rows does not grow with that of the runs, so both statements read all of them.
	oldNoteSQL = `SELECT 1 FROM {prefix}workflow_definitions WHERE at < ?1 LIMIT 1`
	forgetSQL  = `DELETE FROM {prefix}workflow_definitions WHERE at < ?1`
)

// notesKept is for how long the store knows that a process had a definition.
const notesKept = 2 * workflow.UnknownAfter

// strand holds the runs that have been due for a day, if for a day no living process has had their definition.
func (s *Store) strand(ctx context.Context, st sqlitestore.Statements) error {
	now := clock()
	do := run{sqlitestore.Alone(st), s.core}
	if err := s.forget(ctx, do, now.Add(-notesKept).UnixMicro()); err != nil {
		return err
	}
	d := new(workflow.Definition)
	for {
		var err error
		d, err = sqlitestore.One(ctx, do.Runner, scanDefinition, followingSQL, d.Workflow, d.Version)
		if err != nil || d == nil {
			return err
		}
		if err := s.strandOf(ctx, st, d, now.Add(-workflow.UnknownAfter).UnixMicro()); err != nil {
			return err
		}
	}
}

func scanDefinition(rows *sql.Rows) (d workflow.Definition, err error) {
	err = rows.Scan(&d.Workflow, &d.Version)
	return d, err
}

// strandOf holds the runs of a definition that were due before.
func (s *Store) strandOf(
	ctx context.Context, st sqlitestore.Statements, d *workflow.Definition, before int64,
) error {
	for {
		do := run{sqlitestore.Alone(st), s.core}
		living, err := sqlitestore.One(ctx, do.Runner, scanOne, livingSQL, d.Workflow, d.Version, before)
		if err != nil || living != nil {
			return err
		}
		rows, err := do.Query(ctx, strandedSQL, d.Workflow, d.Version, before, sweepBatch)
		stranded, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText)
		if err != nil || len(stranded) == 0 {
			return err
		}
		text, args := holdUnknownSQL, []any{workflow.UnknownError(d.Workflow, d.Version), before}
		if s.failUnknown {
			text, args = failUnknownSQL, append(args, time.Now().UnixMicro())
		}
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			do := run{sqlitestore.Within(tx, st), s.core}
			for _, id := range stranded {
				if _, err := do.Exec(ctx, text, append([]any{id}, args...)...); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
}

// forget removes notes of definitions that are too old to count.
func (s *Store) forget(ctx context.Context, do run, before int64) error {
	old, err := sqlitestore.One(ctx, do.Runner, scanOne, oldNoteSQL, before)
	if err != nil || old == nil {
		return err
	}
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	_, err = do.Exec(ctx, forgetSQL, before)
	return err
}
