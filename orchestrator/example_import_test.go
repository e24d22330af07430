package orchestrator_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A session comes from another system. Its newest state becomes turn 0, and Migrate reads it when the session is next
// used. Importing the session again changes nothing.
func ExampleDefinition_imported() {
	type State struct{ OrderID string }
	ctx := context.Background()
	store := new(checkpoint.Memory)
	load := func(session string, old json.RawMessage) error {
		c, err := store.Claim(ctx, checkpoint.Key{Orchestrator: "support", Session: session},
			checkpoint.ClaimRequest{Owner: "import", Nonce: rand.Text(), TTL: time.Minute})
		if err != nil {
			return err
		}
		err = store.Append(ctx, c.Lease,
			checkpoint.Checkpoint{State: old, Version: "imported", RunID: "import-" + session},
			checkpoint.AppendOptions{})
		return errors.Join(err, store.Mark(ctx, c.Lease, checkpoint.Marks{Release: true}))
	}
	for range 2 {
		if err := load("customer-7", json.RawMessage(`{"order": {"id": "A-1042"}, "reply": "hello"}`)); err != nil {
			log.Fatal(err)
		}
	}

	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support",
		Intents: orchestrator.Intents[State]{
			"answer": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				fmt.Println("turn", t.Index, "is about order", t.State.OrderID)
				return nil
			}},
		},
		Migrate: func(_ context.Context, cp checkpoint.Checkpoint) (State, error) {
			if cp.Version != "imported" {
				return State{}, errors.New("no such version")
			}
			var old struct{ Order struct{ ID string } }
			err := json.Unmarshal(cp.State, &old)
			return State{OrderID: old.Order.ID}, err
		},
	}, store, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "customer-7", orchestrator.Input{Text: "where is it?"}, nil); err != nil {
		log.Fatal(err)
	}
	// Output: turn 1 is about order A-1042
}
