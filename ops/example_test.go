package ops_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run of a bot is parked. A person on call, who has the stores and not the bot, sees why, and makes the run due again
// after the fix.
func Example() {
	type State struct{ Reply string }
	ctx, leave := context.WithCancel(context.Background())
	turns, runs := new(checkpoint.Memory), new(snapshot.Memory)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support",
		Intents: orchestrator.Intents[State]{
			"reply": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
				leave() // the model hangs, and the client goes
				t.State.Reply = "hello"
				return ctx.Err()
			}},
		},
	}, turns, &orchestrator.Options{Snapshots: runs, Logger: quiet, Limits: orchestrator.Limits{Attempts: 1}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "session-1", orchestrator.Input{Text: "hi"}, nil); err == nil {
		log.Fatal("the client has stayed")
	}
	ctx = context.Background()
	outcome, _ := bot.Recover(ctx, "session-1")
	fmt.Println("the drain:", outcome)

	room := ops.New(ops.Stores{Checkpoints: turns, Snapshots: runs, Bots: turns.Bots}, &ops.Options{Logger: quiet})
	for run, err := range room.Runs(ctx, ops.RunQuery{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(run.Orchestrator, run.Session, run.State())
		why, err := room.Why(ctx, run.Key)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(why.Says[0])
		for _, advice := range why.Do {
			fmt.Println("-", advice.Act)
		}
		fmt.Println(room.Unpark(ctx, "ann", run.Key))
	}
	outcome, _ = bot.Recover(ctx, "session-1")
	fmt.Println("the drain:", outcome)
	// Output:
	// the drain: parked
	// support session-1 parked
	// The run was tried 1 times without progress, and is tried no more.
	// - unpark
	// - abandon
	// - delete
	// true <nil>
	// the drain: settled
}
