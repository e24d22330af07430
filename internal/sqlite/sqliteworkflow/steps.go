package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/workflow"
)

// A statement has the journal and the mailbox at one moment. The number of a step is 0, and that of a signal grows. ?2
// selects the row of one name, or of one number.
const (
	stepsSQL = `
		SELECT ` + stepColumns + `, error, output` + ofSteps + `
		UNION ALL
		SELECT ` + signalColumns + `, '', payload` + ofSignals

	// stepsBriefSQL leaves out what may lie on pages of its own.
	stepsBriefSQL = `
		SELECT ` + stepColumns + `, '', NULL` + ofSteps + `
		UNION ALL
		SELECT ` + signalColumns + `, '', NULL` + ofSignals

	stepAloneSQL   = `SELECT ` + stepColumns + `, error, output` + ofSteps + ` AND name = ?2`
	signalAloneSQL = `SELECT ` + signalColumns + `, '', payload` + ofSignals + ` AND id = ?2`

	stepColumns   = `0, name, idx, kind, outcome, attempts, until, signal, started, completed`
	signalColumns = `rowid, event, 0, 'signal', 'open', 0, NULL, id, at, at`

	ofSteps   = ` FROM {prefix}workflow_steps WHERE run = ?1`
	ofSignals = ` FROM {prefix}workflow_signals WHERE run = ?1 AND taken = 0`
)

// Steps implements [workflow.Front]. It is one statement.
func (c front) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return func(yield func(workflow.Step, error) bool) {
		do, err := c.reader(ctx, workflow.ValidateRun(run))
		var journal []entry
		if err == nil {
			journal, err = do.journal(ctx, run)
		}
		for _, e := range journal {
			if err == nil {
				err = ctxcause.Of(ctx)
			}
			if err == nil && !yield(e.Step, e.damage) {
				return
			}
		}
		if err != nil {
			yield(workflow.Step{}, c.explain(ctx, "steps", err))
		}
	}
}

// An entry is a row of the journal or of the mailbox, and its damage if no store wrote it.
type entry struct {
	workflow.Step

	number int64
	damage error
}

// journal returns the journal of a run, and then its mailbox. If SQLite cannot read all rows, journal reads them one by
// one. Of a row that cannot be read it returns what can.
func (do run) journal(ctx context.Context, run string) ([]entry, error) {
	all, err := do.entries(ctx, run, stepsSQL)
	if sqlitestore.Corrupt(err) {
		if all, err = do.entries(ctx, run, stepsBriefSQL); err == nil {
			all, err = do.oneByOne(ctx, run, all)
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		if a.number != b.number || a.number > 0 {
			return cmp.Compare(a.number, b.number)
		}
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Name, b.Name))
	})
	return all, err
}

func (do run) oneByOne(ctx context.Context, run string, brief []entry) (all []entry, err error) {
	for _, e := range brief {
		text, name := stepAloneSQL, e.Name
		if e.number > 0 {
			text, name = signalAloneSQL, e.Signal
		}
		alone, err := do.entries(ctx, run, text, name)
		switch {
		case sqlitestore.Corrupt(err):
			e.damage = workflow.DamagedStep(run, e.Name, err)
			all = append(all, e)
		case err != nil:
			return nil, err
		default: // a wait may have taken the signal since
			all = append(all, alone...)
		}
	}
	return all, nil
}

func (do run) entries(ctx context.Context, run, text string, args ...any) ([]entry, error) {
	rows, err := do.Query(ctx, text, append([]any{run}, args...)...)
	return sqlitestore.Collect(rows, err, func(rows *sql.Rows) (entry, error) { return scanEntry(rows, run) })
}

// scanEntry reads a row, and judges it. Its error is that of the database.
func scanEntry(rows *sql.Rows, run string) (e entry, err error) {
	s := &e.Step
	var until sql.NullInt64
	var started, completed int64
	err = rows.Scan(&e.number, &s.Name, &s.Index, (*string)(&s.Kind), (*string)(&s.Outcome), &s.Attempts, &until,
		&s.Signal, &started, &completed, &s.Error, (*[]byte)(&s.Output))
	s.Until, s.Started, s.Completed = at(until), time.UnixMicro(started).UTC(), time.UnixMicro(completed).UTC()
	if err == nil {
		e.damage = s.Intact(run)
	} else {
		e.damage = workflow.DamagedStep(run, s.Name, err)
	}
	return e, rows.Err()
}
