package workflow_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Raise takes all runs from their owners, whose next write is refused, and makes them due. PostgreSQL has such a test
// of its own.
func TestRaise(t *testing.T) {
	_, lite, _ := openFile(t, nil)
	memory := new(workflow.Memory)
	for name, c := range map[string]struct {
		store workflow.Store
		raise func(ctx context.Context) error
	}{
		"memory": {memory, func(ctx context.Context) error { _, err := memory.Raise(ctx, time.Time{}); return err }},
		"sqlite": {lite.Workflows(), func(ctx context.Context) error { return lite.Raise(ctx, time.Time{}, -1) }},
	} {
		t.Run(name, func(t *testing.T) {
			fence := lock.Fence{Epoch: 1, Nonce: "n"}
			_, err := c.store.Start(t.Context(), []workflow.NewRun{
				{ID: "r", Workflow: "w", Version: 1, Owner: "p", Fence: fence}, {ID: "due", Workflow: "w", Version: 1},
			})
			wantErr(t, err, nil)
			for range 2 {
				wantErr(t, c.raise(t.Context()), nil)
				verdicts, err := c.store.Write(t.Context(), []workflow.Entry{{Run: "r", Fence: fence, Mail: -1}})
				wantErr(t, err, nil)
				wantErr(t, verdicts[0], lock.ErrFenced)
			}
			claimed, _, err := c.store.Claim(t.Context(), workflow.ClaimRequest{
				Process: "q", Nonce: "m", Limit: 10, Definitions: []workflow.Definition{{Workflow: "w", Version: 1}},
			})
			if wantErr(t, err, nil); len(claimed) != 2 {
				t.Errorf("claimed %v", claimed)
			}
		})
	}
}
