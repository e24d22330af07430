package workflow_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// A spoiled store cannot read one run.
type spoiled struct {
	*workflow.Memory

	run string
}

func (s spoiled) Runs(ctx context.Context, q workflow.Query) iter.Seq2[workflow.Run, error] {
	return func(yield func(workflow.Run, error) bool) {
		for r, err := range s.Memory.Runs(ctx, q) {
			if r.ID == s.run {
				r, err = workflow.Run{ID: r.ID}, workflow.Damaged(r.ID, errors.New("spoiled"))
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// A damaged run does not keep a signal from the next run that waits.
func TestSignalFirstDamaged(t *testing.T) {
	ctx, m := t.Context(), new(workflow.Memory)
	f := lock.Fence{Epoch: 1, Nonce: "n"}
	for _, id := range []string{"a", "b"} {
		_, err := m.Start(ctx, []workflow.NewRun{{ID: id, Workflow: "w", Owner: "p", Fence: f}})
		verdicts, written := m.Write(ctx, []workflow.Entry{{Run: id, Fence: f, Next: workflow.Park, Event: "e"}})
		if err := errors.Join(err, written, verdicts[0]); err != nil {
			t.Fatal(err)
		}
	}
	c := workflow.NewClient(spoiled{m, "a"})
	if got, err := c.SignalFirst(ctx, "w", "e", nil, ""); err != nil || got != "b" {
		t.Errorf("%q, %v", got, err)
	}
}
