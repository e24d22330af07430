package orchestrator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A bot records what a model has answered, and a phase of its own. The engine records the beginning and the end. Here
// the log lives in memory.
func ExampleTurn_Record() {
	type State struct{ Reply string }
	type Turn = orchestrator.Turn[State]
	phases := turnlog.NewRegistry()
	if err := phases.Register("depot-asked", "a question went to the depot, which answers within a day"); err != nil {
		log.Fatal(err)
	}
	passed := new(turnlog.Memory)

	ask := func(ctx context.Context, t *Turn) error {
		answered := "I ask the depot." // of a model
		return t.Record(ctx, turnlog.LLMComplete, map[string]string{"text": answered})
	}
	depot := func(ctx context.Context, t *Turn) error {
		t.State.Reply = "The depot looks for it."
		return t.Record(ctx, "depot-asked", map[string]int{"order": 7})
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support", First: "ask", Iterate: true,
		Intents: orchestrator.Intents[State]{
			"ask":   {Run: ask, Next: orchestrator.To("depot")},
			"depot": {Run: depot, Next: orchestrator.End},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), TurnLog: turnlog.New(passed, phases),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	res, err := bot.Execute(ctx, "customer-7", orchestrator.Input{Text: "Where is order 7?"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	entries, err := passed.Restore(ctx, res.RunID)
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range entries {
		if e.Phase == turnlog.Started { // its state has the time at which a turn ends at the latest, and more
			fmt.Println(e.Phase)
			continue
		}
		fmt.Println(e.Phase, string(e.State))
	}
	// Output:
	// started
	// llm-complete {"text":"I ask the depot."}
	// depot-asked {"order":7}
	// settled {"turnState":"complete","respond":{"Reply":"The depot looks for it."},"reason":""}
}

// Respond says what the turn log has as the reply of a settled turn. Without it the log has the whole state.
func ExampleDefinition_respond() {
	type State struct{ Reply, Notes string }
	type Turn = orchestrator.Turn[State]
	passed := new(turnlog.Memory)
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support",
		Intents: orchestrator.Intents[State]{"answer": {Run: func(_ context.Context, t *Turn) error {
			t.State = State{Reply: "It is on its way.", Notes: "an impatient customer"}
			return nil
		}}},
		Respond: func(res *orchestrator.Result[State]) any { return res.State.Reply },
	}, new(checkpoint.Memory), &orchestrator.Options{TurnLog: passed})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := bot.Execute(ctx, "customer-7", orchestrator.Input{Text: "Where is it?"}, nil); err != nil {
		log.Fatal(err)
	}
	for turn, err := range passed.Turns(ctx, turnlog.Query{Session: "customer-7"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(turn.Last.Phase, string(turn.Last.State))
	}
	// Output: settled {"turnState":"complete","respond":"It is on its way.","reason":""}
}
