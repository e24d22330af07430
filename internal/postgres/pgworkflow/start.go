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
		if (started[i].New || runs[i].Debounce) && runs[i].Owner == "" { // engines have to claim it
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
		return f.pipe(ctx, f.adds(n, s))
	})
	if err != nil || s.ID != "" {
		return err
	}
	same, known := true, f.sql.known
	if n.Debounce {
		known = f.sql.found
	}
	err = f.db.Answered(ctx, func() error { return f.pipe(ctx, []call{f.finds(known, n, s, &same)}) })
	if err == nil && !same {
		err = workflow.ErrKeyReused
	}
	switch {
	case err != nil || s.ID != "":
	case n.From != "":
		err = workflow.ErrNotFound
	case n.Parent != "":
		err = f.orphaned(ctx, n.Parent)
	}
	return err
}

// orphaned says why a parent has no more children. If it may have some, orphaned returns nil.
func (f *front) orphaned(ctx context.Context, parent string) error {
	found, err := f.why(ctx, []string{parent})
	st, ok := found[parent]
	switch {
	case err != nil:
		return err
	case !ok:
		return workflow.ErrNotFound
	case st.status.Over():
		return workflow.ErrOver
	}
	return nil
}

// adds are the statements that add a run, or that move the run whose place a debounced start takes.
func (f *front) adds(n *workflow.NewRun, s *workflow.Started) []call {
	if !n.Debounce {
		return []call{f.starts(n, s)}
	}
	var id string
	var version int
	key := []any{n.ID, n.Workflow, n.Key}
	return []call{
		{f.sql.pass, key, each(func() {}, nil)},
		f.starts(n, s),
		{f.sql.move, append(key, orNull(n.Input), n.Delay.Microseconds()), each(func() {
			*s = workflow.Started{ID: id, Version: version, Status: workflow.Running}
		}, &id, &version, nil)},
	}
}

// startAll starts runs in one transaction. After each of them comes the look at what it is now. If that is a run with
// another input, the look divides by zero, so that nothing was added. If a run was not added because of its parent, or
// of what it is a fork of, another look fails in another way. The order is the same in all processes: one that
// waits for a key of another one has none that the other one waits for.
func (f *front) startAll(ctx context.Context, runs []workflow.NewRun, started []workflow.Started) error {
	order := sorted(runs, func(a, b *workflow.NewRun) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(a.Key, b.Key), cmp.Compare(a.ID, b.ID))
	})
	err := f.db.Answered(ctx, func() error {
		calls := make([]call, 0, 2*len(runs))
		for _, i := range order {
			started[i].ID = ""
			calls = append(calls, f.adds(&runs[i], &started[i])...)
		}
		for _, i := range order {
			n, judged := &runs[i], f.sql.judged
			if n.Parent != "" || n.From != "" {
				args := []any{n.ID, n.Workflow, n.Key, n.Parent}
				calls = append(calls, call{f.sql.admitted, args, each(func() {}, nil)})
			}
			if n.Debounce {
				judged = f.sql.foundJudged
			}
			calls = append(calls, f.finds(judged, n, &started[i], nil))
		}
		return f.pipe(ctx, calls)
	})
	switch pgstate.Of(err) {
	case pgstate.DivisionByZero:
		err = workflow.ErrKeyReused
	case pgstate.LogarithmOfZero:
		err = workflow.ErrOver
	case pgstate.NegativeRoot:
		err = workflow.ErrNotFound
	}
	return err
}

// starts adds a run. If it was added, s says so, and keeps it for a repeat.
func (f *front) starts(n *workflow.NewRun, s *workflow.Started) call {
	var version int
	days := retention.Days(n.RetentionDays, retention.MostDays(f.most))
	args := []any{
		n.ID, n.Workflow, n.Version, orNull(n.Input), n.Key, days, n.Delay.Microseconds(), n.Owner, n.Fence.Epoch,
		n.Fence.Nonce,
	}
	sql, newest := f.sql.start, f.sql.startNewest
	switch {
	case n.Parent != "":
		sql, newest, args = f.sql.child, f.sql.childNewest, append(args, n.Parent, n.Group)
	case n.From != "":
		sql, newest, args = f.sql.fork, f.sql.forkNewest, append(args, n.From, n.FromStep, n.Group)
	case n.Group != "":
		sql, newest, args = f.sql.grouped, f.sql.groupedNewest, append(args, n.Group)
	}
	if n.Version == 0 {
		sql = newest
	}
	return call{sql, args, each(func() {
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
