package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

const (
	fromSQL = ownedSQL + ` AND owner = ?3
		ORDER BY id`

	againSQL = ownedSQL + ` AND owner = ?3 AND nonce = ?4
		ORDER BY id`

	leaseSQL = ownedSQL + ` AND since < ?3
			AND NOT EXISTS (SELECT 1 FROM {prefix}beats WHERE process = owner AND at >= ?3)
		ORDER BY id`

	ownedSQL = `
		SELECT id, 0 FROM {prefix}workflow_runs
		WHERE workflow = ?1 AND version = ?2 AND status = 'running' AND due IS NULL`

	progressSQL = `
		SELECT crashes, crashed, (
			SELECT count(*) FROM {prefix}workflow_steps
			WHERE run = id AND outcome <> 'retrying' AND outcome <> 'late')
		FROM {prefix}workflow_runs WHERE id = ?1`

	crashSQL = `UPDATE {prefix}workflow_runs SET crashes = ?2, crashed = ?3 WHERE id = ?1`

	holdCrashedSQL = `
		UPDATE {prefix}workflow_runs SET hold = 'crashed', crashes = ?2, crashed = ?3, error = ?4, owner = '', due = ?5,
			epoch = epoch + 1
		WHERE id = ?1`

	noteSQL = `
		INSERT INTO {prefix}workflow_definitions (workflow, version, process, at)
		VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (workflow, version, process) DO UPDATE SET at = excluded.at`

	leaveSQL = `UPDATE {prefix}workflow_definitions SET at = ?2 WHERE process = ?1`
)

// owned returns the runs of other owners, or of lost answers, that c may claim.
func (do run) owned(ctx context.Context, c *claim) (found []candidate, err error) {
	text, args := leaseSQL, []any{c.now.Add(-c.Lease).UnixMicro()}
	switch {
	case c.From != "":
		text, args = fromSQL, []any{c.From}
	case c.Again != "":
		text, args = againSQL, []any{c.Process, c.Again}
	}
	for _, d := range c.definitions {
		rows, err := do.Query(ctx, text, append([]any{d.Workflow, d.Version}, args...)...)
		some, err := sqlitestore.Collect(rows, err, scanCandidate)
		if err != nil {
			return nil, err
		}
		found = append(found, some...)
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	return found, nil
}

// crash notes that an owner has lost the run. It holds the run if that has happened too often.
func (do run) crash(ctx context.Context, c *claim, id string) (held bool, err error) {
	p, err := sqlitestore.One(ctx, do.Runner, scanProgress, progressSQL, id)
	if err != nil || p == nil {
		return false, err
	}
	if p.crashes++; p.crashed != p.rows {
		p.crashes, p.crashed = 1, p.rows
	}
	if p.crashes < c.MostCrashes {
		_, err = do.Exec(ctx, crashSQL, id, p.crashes, p.crashed)
		return false, err
	}
	_, err = do.Exec(ctx, holdCrashedSQL, id, p.crashes, p.crashed, workflow.CrashError(p.crashes), int64(never))
	return true, err
}

// A progress is how often owners have lost a run without progress, how many rows its journal had then, and has.
type progress struct{ crashes, crashed, rows int }

func scanProgress(rows *sql.Rows) (p progress, err error) {
	err = rows.Scan(&p.crashes, &p.crashed, &p.rows)
	return p, err
}

// note notes the definitions that a living process has. Without definitions, the process is not living any more, but
// has known them until now.
func (do run) note(ctx context.Context, c *claim) (err error) {
	if len(c.definitions) == 0 {
		_, err = do.Exec(ctx, leaveSQL, c.Process, c.now.Add(-workflow.LivingFor).UnixMicro())
	}
	for _, d := range c.definitions {
		if err == nil {
			_, err = do.Exec(ctx, noteSQL, d.Workflow, d.Version, c.Process, c.now.UnixMicro())
		}
	}
	return err
}
