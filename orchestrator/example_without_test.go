package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A command of operators has the stores of a bot, and not its code. It sees the state as JSON, and ends a run that
// waits.
func ExampleWithoutDefinition() {
	type State struct{ Paid int }
	ctx, leave := context.WithCancel(context.Background())
	turns, runs := new(checkpoint.Memory), new(snapshot.Memory)
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "payments",
		Intents: orchestrator.Intents[State]{"pay": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
			if t.State.Paid > 0 {
				leave() // the client goes away
				return ctx.Err()
			}
			t.State.Paid = 10
			return nil
		}}},
	}, turns, &orchestrator.Options{Snapshots: runs})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"pay", "pay again"} {
		_, err := bot.Execute(ctx, "session-1", orchestrator.Input{Text: text}, nil)
		fmt.Println(err)
	}

	command, err := orchestrator.WithoutDefinition("payments", turns, &orchestrator.Options{Snapshots: runs})
	if err != nil {
		log.Fatal(err)
	}
	ctx = context.Background()
	last, err := command.Turn(ctx, "session-1", checkpoint.Newest)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(last.Turn, last.Input.Text, string(last.State))
	for run, err := range command.Runs(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		ended, err := command.Abandon(ctx, run.Session, run.ID)
		fmt.Println(run.Status, ended, err)
	}
	_, err = command.Resume(ctx, "session-1", nil)
	fmt.Println(errors.Is(err, orchestrator.ErrNoDefinition))
	// Output:
	// <nil>
	// orchestrator: intent "pay": session "session-1" turn 1: outcome unknown: context canceled
	// 0 pay {"Paid":10}
	// waiting true <nil>
	// true
}
