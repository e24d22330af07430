package orchestrator_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A turn looks up several orders, a few at once. Each order has a branch, which is saved when it has finished. Merge
// puts together what the branches have found, in the order of the items.
func ExampleForEach() {
	type State struct{ Found []string }
	type Turn = orchestrator.Turn[State]
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "orders",
		Intents: orchestrator.Intents[State]{"look up": {Run: func(_ context.Context, t *Turn) error {
			order := orchestrator.Item[string](t)
			t.State.Found = append(t.State.Found, fmt.Sprintf("%d. %s has shipped", t.ItemNumber, order))
			return nil
		}}},
		Route: func(_ context.Context, t *Turn) (orchestrator.Next, error) {
			return orchestrator.ForEach("look up", strings.Fields(t.Input.Text)...), nil
		},
		Merge: func(base State, branches []State) (State, error) {
			n := len(base.Found)
			for _, b := range branches {
				base.Found = append(base.Found, b.Found[n:]...)
			}
			return base, nil
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), Limits: orchestrator.Limits{FanOut: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "A-17 A-18 B-3"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(res.State.Found, "\n"))
	// Output:
	// 1. A-17 has shipped
	// 2. A-18 has shipped
	// 3. B-3 has shipped
}

// An intent decides where the turn goes from here. Its Then sees the state that the intent has left.
func ExampleIntent_then() {
	type State struct {
		Draft string
		Tries int
	}
	type Turn = orchestrator.Turn[State]
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "writer", Iterate: true, First: "write",
		Intents: orchestrator.Intents[State]{"write": {
			Run: func(_ context.Context, t *Turn) error {
				t.State.Tries++
				t.State.Draft = strings.Repeat("very ", 3-t.State.Tries) + "good"
				return nil
			},
			Then: func(_ context.Context, t *Turn) (orchestrator.Next, error) {
				if len(t.State.Draft) > 10 {
					return orchestrator.To("write"), nil
				}
				return orchestrator.End, nil
			},
		}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "how was it?"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Draft, "after", res.State.Tries)
	// Output: very good after 2
}

// Items of one intent run beside another intent.
func ExampleNext_And() {
	next := orchestrator.ForEach("look up", "A-17", "A-18").And(orchestrator.To("greet"))
	count, _ := next.Items("look up")
	fmt.Println(next.Intents, count)
	// Output: [look up greet] 2
}
