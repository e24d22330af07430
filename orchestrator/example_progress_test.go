package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Two jobs are handed over. Whoever did so looks later what has become of them: one fails for good.
func ExampleOrchestrator_Progress() {
	type State struct{ Sent string }
	ctx := context.Background()
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "mail",
		Intents: orchestrator.Intents[State]{
			"send": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				if t.Input.Text == "" {
					return errors.New("nobody gets this mail")
				}
				t.State.Sent = "sent to " + t.Input.Text
				return nil
			}},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), Inbox: new(inbox.Memory), Limits: orchestrator.Limits{Attempts: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	for id, to := range map[string]string{"job-1": "ann@example.com", "job-2": ""} {
		if err := bot.Enqueue(ctx, id, orchestrator.Input{RequestID: id, Text: to}); err != nil {
			log.Fatal(err)
		}
	}
	look := func(id string) {
		p, err := bot.Progress(ctx, id, id)
		switch {
		case err != nil:
			log.Fatal(err)
		case p.Status == orchestrator.InputSettled:
			fmt.Println(id, p.Result.State.Sent)
		case p.Status == orchestrator.InputFailed:
			fmt.Println(id, "has failed:", p.Problem.Text)
		default:
			fmt.Println(id, "is", p.Status)
		}
	}
	look("job-1")
	if _, err := bootdrain.DrainInterrupted(ctx, bot, nil); err != nil {
		log.Fatal(err)
	}
	look("job-1")
	look("job-2")
	// Output:
	// job-1 is waiting
	// job-1 sent to ann@example.com
	// job-2 has failed: The bot could not answer.
}
