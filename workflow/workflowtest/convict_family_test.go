package workflowtest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsFamily(t *testing.T) {
	convict(t, map[string]mutant{
		"a parent is not kept":            {"child", eachRun(func(r *run) { r.Parent = "" })},
		"a claim tells no parent":         {"child", eachClaimed(func(c *claimed) { c.Parent = "" })},
		"a query forgets its parent":      {"child", eachQuery(func(q *workflow.Query) { q.Parent = "" })},
		"a parent has a page of children": {"child-pages", lists(firstChildren)},
		"a child of nobody":               {"child-refused", anyParent(workflow.ErrNotFound)},
		"a child of what is over":         {"child-refused", anyParent(workflow.ErrOver)},
		"a child is refused in its place": {"child-refused", startsOneByOne},
		"a known child is refused":        {"child-refused", refusesKnown},
		"children go on":                  {"cancel-family", orphans(func(workflow.Run) bool { return true })},
		"children of children go on":      {"cancel-family", orphans(func(r workflow.Run) bool { return r.Parent != "p" })},
		"held children go on":             {"cancel-family", orphans(func(r workflow.Run) bool { return r.Hold != "" })},
		"an end cancels children":         {"cancel-not-family", endsFamily},
		"a start looks at its parent":     {"race-family", looksAtParent},
	})
}

func firstChildren(q workflow.Query, all []run) []run {
	if q.Parent != "" && len(all) > 64 {
		return all[:64]
	}
	return all
}

// anyParent starts a run without its parent if the store refuses it.
func anyParent(when error) fault {
	return func(b *broken) {
		start := b.start
		b.start = func(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
			started, err := start(ctx, runs)
			if !errors.Is(err, when) {
				return started, err
			}
			runs = slices.Clone(runs)
			for i := range runs {
				runs[i].Parent = ""
			}
			return start(ctx, runs)
		}
	}
}

func startsOneByOne(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []workflow.NewRun) (all []workflow.Started, err error) {
		for _, n := range runs {
			started, err := start(ctx, []workflow.NewRun{n})
			if err != nil {
				return nil, err
			}
			all = append(all, started...)
		}
		return all, nil
	}
}

func refusesKnown(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
		for _, n := range runs {
			if n.Parent != "" && b.run(n.Parent).Status.Over() {
				return nil, workflow.ErrOver
			}
		}
		return start(ctx, runs)
	}
}

// orphans does not cancel some children, as those of a run that are no children do not change.
func orphans(which func(workflow.Run) bool) fault {
	return func(b *broken) {
		left := make(map[string]workflow.Run)
		send := b.send
		b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
			before := b.all(workflow.Query{Status: workflow.Running})
			receipts, err := send(ctx, messages)
			for _, r := range before {
				cancelled := b.run(r.ID).Status == workflow.Cancelled
				named := slices.ContainsFunc(messages, func(m message) bool { return m.Run == r.ID })
				if cancelled && !named && r.Parent != "" && which(r) {
					left[r.ID] = r
				}
			}
			return receipts, err
		}
		eachRun(func(r *run) {
			if was, is := left[r.ID]; is {
				*r = was
			}
		})(b)
	}
}

func endsFamily(b *broken) {
	write := b.write
	b.write = func(ctx context.Context, entries []entry) ([]error, error) {
		verdicts, err := write(ctx, entries)
		for _, e := range entries {
			for _, r := range b.all(workflow.Query{Parent: e.Run}) {
				if e.Next == workflow.End {
					_, _ = b.Memory.Send(ctx, []message{{Run: r.ID, Action: workflow.Cancel}})
				}
			}
		}
		return verdicts, err
	}
}

// looksAtParent looks at the parent, and then starts the run without a lock: beside the start the parent is cancelled.
func looksAtParent(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []workflow.NewRun) ([]workflow.Started, error) {
		runs = slices.Clone(runs)
		for i := range runs {
			if p := runs[i].Parent; p != "" && b.run(p).Status == workflow.Running {
				runs[i].Parent = ""
			}
		}
		for range 200 {
			runtime.Gosched()
		}
		return start(ctx, runs)
	}
}
