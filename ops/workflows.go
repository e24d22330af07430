package ops

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

// Workflows returns what reads the runs of workflows: Get, Runs and Steps. Its acts are better called by the Room,
// which notes the actor.
func (r *Room) Workflows() (*workflow.Client, error) {
	if r.stores.Workflows == nil {
		return nil, fmt.Errorf("%w: Workflows", ErrNoStore)
	}
	return workflow.NewClient(r.stores.Workflows), nil
}

// Signal sends an event to a run: see workflow.Client.Signal.
func (r *Room) Signal(
	ctx context.Context, by, run, event string, payload any, id string,
) (workflow.Receipt, error) {
	return r.workflow(ctx, by, workflow.Signal, run, func(c *workflow.Client) (workflow.Receipt, error) {
		return c.Signal(ctx, run, event, payload, id)
	})
}

// Apply cancels, pauses or resumes a run, or rewinds it to before a step: see the methods of workflow.Client. Only a
// workflow.Rewind has a step. If the run is over, the receipt is workflow.Over, and nothing has changed.
func (r *Room) Apply(ctx context.Context, by string, a workflow.Action, run, step string) (workflow.Receipt, error) {
	return r.workflow(ctx, by, a, run, func(c *workflow.Client) (workflow.Receipt, error) {
		switch a {
		case workflow.Cancel:
			return c.Cancel(ctx, run)
		case workflow.Pause:
			return c.Pause(ctx, run)
		case workflow.Resume:
			return c.Resume(ctx, run)
		case workflow.Rewind:
			return c.Rewind(ctx, run, step)
		}
		return "", fmt.Errorf("ops: %w: action %q", store.ErrInvalid, a)
	})
}

func (r *Room) workflow(
	ctx context.Context, by string, a workflow.Action, run string,
	f func(*workflow.Client) (workflow.Receipt, error),
) (receipt workflow.Receipt, err error) {
	_, err = r.act(ctx, by, Act(a), []any{"run", run}, func() (bool, error) {
		c, err := r.Workflows()
		if err == nil {
			receipt, err = f(c)
		}
		return receipt == workflow.Applied || receipt == workflow.Consumed || receipt == workflow.Kept, err
	})
	return receipt, err
}
