package orchestrator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A webhook hands an input over and is done. It comes twice. The watch runs it, here by one pass.
func ExampleOrchestrator_Enqueue() {
	type State struct{ Paid []string }
	ctx := context.Background()
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "orders",
		Intents: orchestrator.Intents[State]{
			"note": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				t.State.Paid = append(t.State.Paid, t.Input.Text)
				return nil
			}},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Inbox: new(inbox.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range []string{"event-1", "event-1", "event-2"} {
		in := orchestrator.Input{RequestID: id, Text: "paid by " + id, Kind: "webhook", Origin: orchestrator.FromSystem}
		if err := bot.Enqueue(ctx, "customer-7", in); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := bootdrain.DrainInterrupted(ctx, bot, nil); err != nil {
		log.Fatal(err)
	}
	res, err := bot.Turn(ctx, "customer-7", checkpoint.Newest)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Turn, res.State.Paid)
	// Output: 1 [paid by event-1 paid by event-2]
}
