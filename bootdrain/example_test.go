package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A process is shut down in the middle of a turn. The next one finishes it before it serves.
func ExampleDrainInterrupted() {
	type State struct{ Reply string }
	asked := make(chan struct{}, 1)
	deploying := true
	ask := func(ctx context.Context, t *orchestrator.Turn[State]) error {
		asked <- struct{}{}
		if deploying {
			// The model is slow, but the deploy does not wait for it.
			<-ctx.Done()
			return ctx.Err()
		}
		t.State.Reply = "a reply to " + t.Input.Text
		return nil
	}
	checkpoints, snapshots := new(checkpoint.Memory), new(snapshot.Memory)
	start := func() *orchestrator.Orchestrator[State] {
		bot, err := orchestrator.New(orchestrator.Definition[State]{
			Name: "support", Intents: orchestrator.Intents[State]{"ask": {Run: ask}},
		}, checkpoints, &orchestrator.Options{Snapshots: snapshots})
		if err != nil {
			panic(err)
		}
		return bot
	}
	ctx := context.Background()

	old := start()
	turn := old.Stream(ctx, "s-1", orchestrator.Input{Text: "hello"}, nil)
	<-asked
	now, cancel := context.WithCancel(ctx)
	cancel()
	fmt.Println("shut down:", old.Shutdown(now))
	_, err := turn.Result()
	fmt.Println("outcome unknown:", errors.Is(err, orchestrator.ErrIndeterminate))
	deploying = false

	report, err := bootdrain.DrainInterrupted(ctx, start(), &bootdrain.Options{Logger: slog.New(slog.DiscardHandler)})
	fmt.Println(report.Scanned, "found,", report.Settled, "settled,", err)
	for res, err := range start().Turns(ctx, "s-1") {
		fmt.Println(res.State.Reply, err)
	}
	// Output:
	// shut down: <nil>
	// outcome unknown: true
	// 1 found, 1 settled, <nil>
	// a reply to hello <nil>
}
