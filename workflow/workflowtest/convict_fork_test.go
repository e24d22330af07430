package workflowtest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

func TestSuiteConvictsFork(t *testing.T) {
	convict(t, map[string]mutant{
		"a fork has no journal":        {"fork", forks(func(n *newRun) { n.From, n.FromStep = "", "" })},
		"a fork is from the beginning": {"fork", forks(func(n *newRun) { n.FromStep = "a" })},
		"a fork has it all":            {"fork", forks(func(n *newRun) { n.FromStep = "d" })},
		"a fork is fresh":              {"fork", eachClaimed(func(c *claimed) { freshFork(c) })},
		"a copy has another time":      {"fork", eachStep(func(st *workflow.Step) { st.Completed = st.Completed.Add(1000 * forked(st)) })},
		"a fork of nothing is empty":   {"fork-refused", forksNothing},
		"a rewind does nothing":        {"rewind", noRewind},
		"a rewind is a pause":          {"rewind", rewinds(func(m *message) { m.Action = workflow.Pause })},
		"a rewind is to the beginning": {"rewind", rewinds(func(m *message) { m.Event = "a" })},
		"a rewind cancels no child":    {"rewind", orphans(func(r workflow.Run) bool { return strings.Contains(r.Parent, " ") })},
		"what is over is rewound":      {"rewind-refused", eachReceipt(instead(workflow.Over, workflow.Applied))},
		"an unknown step is over":      {"rewind-refused", eachReceipt(instead(workflow.Unknown, workflow.Over))},
		"a rewind forgets later rows":  {"race-rewind", lateRows},
	})
}

func forks(change func(*newRun)) fault {
	return eachNew(func(n *newRun) {
		if n.From != "" {
			change(n)
		}
	})
}

func freshFork(c *claimed) {
	if strings.HasPrefix(c.ID, "fork") {
		c.Fence.Epoch = 1
	}
}

// forked is 1 for a row that is a copy, as far as the clause shows it, and 0 for another one.
func forked(st *workflow.Step) (n time.Duration) {
	if st.Name == "b" && st.Signal == "" {
		return 1
	}
	return 0
}

func forksNothing(b *broken) {
	start := b.start
	b.start = func(ctx context.Context, runs []newRun) ([]workflow.Started, error) {
		started, err := start(ctx, runs)
		if !errors.Is(err, workflow.ErrNotFound) {
			return started, err
		}
		runs = slices.Clone(runs)
		for i := range runs {
			runs[i].From, runs[i].FromStep = "", ""
		}
		return start(ctx, runs)
	}
}

func rewinds(change func(*message)) fault {
	return eachMessage(func(m *message) {
		if m.Action == workflow.Rewind {
			change(m)
		}
	})
}

func noRewind(b *broken) {
	rewinds(func(m *message) { m.Action = workflow.Resume })(b)
	eachReceipt(instead(workflow.Over, workflow.Applied))(b)
}

// lateRows reads the journal, and then removes what it has read.
func lateRows(b *broken) {
	send := b.send
	b.send = func(ctx context.Context, messages []message) ([]receipt, error) {
		if messages[0].Action != workflow.Rewind {
			return send(ctx, messages)
		}
		for range 200 {
			runtime.Gosched()
		}
		var rows []workflow.Step
		for st, err := range b.Memory.Steps(ctx, messages[0].Run) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, st)
		}
		receipts, err := send(ctx, messages)
		if len(rows) > 1 {
			st := rows[1]
			late := entry{Run: messages[0].Run, Next: workflow.Record, Steps: []workflow.Step{st}}
			_, _ = b.Memory.Write(ctx, []entry{late})
		}
		return receipts, err
	}
}
