package pgworkflow

import (
	"context"
	"iter"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/workflow"
)

// Steps implements [workflow.Front]. It is one statement.
func (f *front) Steps(ctx context.Context, run string) iter.Seq2[workflow.Step, error] {
	return func(yield func(workflow.Step, error) bool) {
		err := workflow.ValidateRun(run)
		if err == nil {
			err = f.readable()
		}
		if err != nil {
			yield(workflow.Step{}, err)
			return
		}
		all, err := f.journal(ctx, run)
		for i := 0; i < len(all) && err == nil; i++ {
			if err = ctxcause.Of(ctx); err != nil {
				break
			}
			if !yield(all[i].Step, f.error(ctx, "steps", run, all[i].intact(run))) {
				return
			}
		}
		if err != nil {
			yield(workflow.Step{}, f.error(ctx, "steps", run, err))
		}
	}
}

// journal returns the steps of a run, and then the signals that no wait has taken.
func (f *front) journal(ctx context.Context, run string) ([]stepRow, error) {
	sql := strings.NewReplacer("{output}", "output", "{payload}", "payload").Replace(f.sql.steps)
	all, err := pgstate.Collect(ctx, f.db, scanStep, 0, sql, run)
	if pgstate.Corrupt(err) {
		return f.journalAlone(ctx, run)
	}
	return all, err
}
