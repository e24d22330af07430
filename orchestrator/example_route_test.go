package orchestrator_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// With Iterate a turn goes round until Route, or Evaluate, says End. Here an editor sends the first draft back.
func ExampleDefinition_iterate() {
	type State struct{ Draft string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name:    "writer",
		Iterate: true,
		Begin:   func(_ context.Context, t *orchestrator.Turn[State]) error { t.State.Draft = ""; return nil },
		Intents: orchestrator.Intents[State]{"write": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Draft = t.Input.Text + "!!!"
			if t.Feedback != "" {
				t.State.Draft = t.Input.Text + "."
			}
			return nil
		}}},
		Evaluate: func(_ context.Context, t *orchestrator.Turn[State]) (orchestrator.Next, error) {
			if strings.HasSuffix(t.State.Draft, "!") {
				t.Feedback = "do not shout"
				return orchestrator.To("write"), nil
			}
			return orchestrator.Next{}, nil // no opinion: Route decides
		},
		Route: func(_ context.Context, t *orchestrator.Turn[State]) (orchestrator.Next, error) {
			if t.State.Draft == "" {
				return orchestrator.To("write"), nil
			}
			return orchestrator.End, nil
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "Thank you"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Draft, len(res.Steps), "iterations")
	// Output: Thank you. 2 iterations
}

// Several intents run at once, each on a copy of the state. Merge makes one state of the states that they return, in
// the order in which they were named. Without Merge two branches must not change the same field.
func ExampleDefinition_merge() {
	type State struct{ Facts []string }
	find := func(fact string) func(context.Context, *orchestrator.Turn[State]) error {
		return func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Facts = append(t.State.Facts, fact)
			return nil
		}
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support",
		Intents: orchestrator.Intents[State]{
			"customer": {Run: find("a gold customer")},
			"order":    {Run: find("the order has shipped")},
		},
		Route: func(context.Context, *orchestrator.Turn[State]) (orchestrator.Next, error) {
			return orchestrator.To("order", "customer"), nil
		},
		Merge: func(base State, branches []State) (State, error) {
			merged := slices.Clone(base.Facts)
			for _, branch := range branches {
				merged = append(merged, branch.Facts[len(base.Facts):]...)
			}
			return State{Facts: merged}, nil
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: "where is it?"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(res.State.Facts, "; "))
	// Output: the order has shipped; a gold customer
}
