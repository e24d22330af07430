package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A turn starts from the state that the turn before has settled.
func ExampleOrchestrator_Execute() {
	type State struct{ Names []string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "greeter",
		Intents: orchestrator.Intents[State]{"greet": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Names = append(t.State.Names, t.Input.Text)
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"Ann", "Bob"} {
		res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: name}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Turn, res.State.Names)
	}
	// Output:
	// 0 [Ann]
	// 1 [Ann Bob]
}

// A client that got no answer asks again with the same request id, and gets the answer of the turn that has run.
func ExampleOrchestrator_Execute_replay() {
	type State struct{ Paid int }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "payments",
		Intents: orchestrator.Intents[State]{"pay": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			fmt.Println("paying")
			t.State.Paid += 10
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 2 {
		res, err := bot.Execute(ctx, "session-1", orchestrator.Input{RequestID: "r-1", Text: "pay 10"}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Turn, res.State.Paid, res.Replayed)
	}
	_, err = bot.Execute(ctx, "session-1", orchestrator.Input{RequestID: "r-1", Text: "pay 20"}, nil)
	fmt.Println(err)
	// Output:
	// paying
	// 0 10 false
	// 0 10 true
	// orchestrator: input: session "session-1": request id used for another input
}

// An intent is tested with a Turn made by hand.
func ExampleTurn() {
	type State struct{ Reply string }
	greet := func(_ context.Context, t *orchestrator.Turn[State]) error {
		t.AddUsage(orchestrator.Usage{Input: 3})
		t.State.Reply = "You said: " + t.Input.Text
		return nil
	}
	turn := &orchestrator.Turn[State]{Input: orchestrator.Input{Text: "hello"}}
	fmt.Println(greet(context.Background(), turn))
	fmt.Println(turn.State.Reply, turn.Usage().Input)
	// Output:
	// <nil>
	// You said: hello 3
}

// A handler sends a status and a sentence, and keeps the text of the error for the log.
func ExamplePublic() {
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name: "shop",
		Intents: orchestrator.Intents[string]{"pay": {Run: func(context.Context, *orchestrator.Turn[string]) error {
			return errors.New("dial tcp db.internal:5432: connection refused")
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"pay", strings.Repeat("!", 2<<20)} {
		_, err := bot.Execute(context.Background(), "s", orchestrator.Input{Text: text}, nil)
		p := orchestrator.Public(err)
		fmt.Println(p.Status, p.Retryable, p.Text)
	}
	// Output:
	// 502 false The bot could not answer.
	// 422 false text: 2097154 bytes, and Limits.Input is 1048576
}
