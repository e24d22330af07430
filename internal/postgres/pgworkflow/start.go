package pgworkflow

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/retention"
	"github.com/holdfast-go/holdfast/workflow"
)

// Start implements [workflow.Front]. A run is one statement. Only if its id or key is known, it is one more. Several
// runs are two statements each, in one transaction.
func (f *front) Start(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
	if err := workflow.ValidateStart(runs); err != nil || len(runs) == 0 {
		return nil, err
	}
	started := make([]workflow.Started, len(runs))
	err := f.start(ctx, runs, started)
	for i := 0; err == nil && i < len(runs); i++ {
		if started[i].New && runs[i].Owner == "" { // engines have to claim it
			err = f.note(ctx, workflow.Note{})
			break
		}
	}
	if err != nil {
		return nil, f.error(ctx, "start", "", err)
	}
	return started, nil
}

func (f *front) start(ctx context.Context, runs []workflow.NewRun, started []workflow.Started) error {
	for range tries {
		var err error
		if len(runs) == 1 {
			err = f.startOne(ctx, &runs[0], &started[0])
		} else {
			err = f.startAll(ctx, runs, started)
		}
		if err != nil || !slices.ContainsFunc(started, func(s workflow.Started) bool { return s.ID == "" }) {
			return err
		}
	}
	return changing("run")
}

// startOne starts a run. If it was known, and has gone meanwhile, startOne leaves s empty.
func (f *front) startOne(ctx context.Context, n *workflow.NewRun, s *workflow.Started) error {
	err := f.db.Answered(ctx, func() error {
		*s = workflow.Started{}
		return f.pipe(ctx, []call{f.starts(n, s)})
	})
	if err != nil || s.New {
		return err
	}
	same := true
	err = f.db.Answered(ctx, func() error { return f.pipe(ctx, []call{f.finds(f.sql.known, n, s, &same)}) })
	if err == nil && !same {
		err = workflow.ErrKeyReused
	}
	return err
}

// startAll starts runs in one transaction. After each of them comes the look at what it is now. If that is a run with
// another input, the look divides by zero, so that nothing was added. The order is the same in all processes: one that
// waits for a key of another one has none that the other one waits for.
func (f *front) startAll(ctx context.Context, runs []workflow.NewRun, started []workflow.Started) error {
	order := sorted(runs, func(a, b *workflow.NewRun) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
	})
	err := f.db.Answered(ctx, func() error {
		calls := make([]call, 0, 2*len(runs))
		for _, i := range order {
			started[i].ID = ""
			calls = append(calls, f.starts(&runs[i], &started[i]))
		}
		for _, i := range order {
			calls = append(calls, f.finds(f.sql.judged, &runs[i], &started[i], nil))
		}
		return f.pipe(ctx, calls)
	})
	if pgstate.Of(err) == pgstate.DivisionByZero {
		err = workflow.ErrKeyReused
	}
	return err
}

// starts adds a run. If it was added, s says so, and keeps it for a repeat.
func (f *front) starts(n *workflow.NewRun, s *workflow.Started) call {
	var version int
	days := retention.Days(n.RetentionDays, retention.MostDays(f.most))
	sql := f.sql.start
	if n.Version == 0 {
		sql = f.sql.startNewest
	}
	return call{sql, []any{
		n.ID, n.Workflow, n.Version, orNull(n.Input), n.Key, days, n.Delay.Microseconds(), n.Owner, n.Fence.Epoch,
		n.Fence.Nonce,
	}, each(func() {
		*s = workflow.Started{ID: n.ID, Version: version, Status: workflow.Running, New: true}
	}, &version, nil)}
}

// finds looks for the run that n is now, and whether it is the same.
func (f *front) finds(sql string, n *workflow.NewRun, s *workflow.Started, same *bool) call {
	into := []any{&s.ID, &s.Version, (*string)(&s.Status), nil, nil}
	if same != nil {
		into[3] = same
	}
	return call{sql, []any{n.ID, n.Workflow, orNull(n.Input), n.Key}, func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error { return nil })
		return err
	}}
}

// sorted returns the indexes of all in an order.
func sorted[T any](all []T, compare func(a, b *T) int) []int {
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(&all[i], &all[j]) })
	return order
}
