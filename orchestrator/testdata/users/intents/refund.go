// Package intents has an intent that is tested without an orchestrator.
package intents

import (
	"context"

	"github.com/holdfast-go/holdfast/orchestrator"
)

type State struct{ Receipt string }

func refund(ctx context.Context, t *orchestrator.Turn[State]) error {
	t.Logger().InfoContext(ctx, "refunding")
	t.Emit("one moment")
	t.AddUsage(orchestrator.Usage{Input: 3})
	t.State.Receipt = "r-1"
	return nil
}
