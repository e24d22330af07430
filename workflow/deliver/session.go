package deliver

import (
	"context"
	"encoding/json"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// Sessions take messages as inputs. An orchestrator with an inbox is one, with three lines around its Enqueue.
type Sessions interface {
	// Enqueue accepts a message for a session, durably. requestID is the id of the message. If it comes again, with the
	// same message, Enqueue accepts nothing, and returns nil. An error that retry.Permanent marks ends the run as
	// failed. Any other is tried again.
	Enqueue(ctx context.Context, session, requestID string, message json.RawMessage) error
}

// Session returns the built-in workflow "session". It gives the message of a [workflow.Delivery] to its session.
func Session(s Sessions) *flow.Workflow[workflow.Delivery, any] {
	return flow.New(workflow.SessionWorkflow, 1, func(r *flow.Run, d workflow.Delivery) (any, error) {
		return nil, flow.Do(r, "enqueue", func(ctx context.Context) error {
			return s.Enqueue(ctx, d.Session, d.ID, d.Message)
		}, flow.Retry(patiently))
	})
}
