package orchestrator_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

func Example() {
	type State struct{ Order, Reply string }
	type Turn = orchestrator.Turn[State]
	lookUp := func(_ context.Context, t *Turn) error { t.State.Order = "A-1042"; return nil }
	answer := func(_ context.Context, t *Turn) error { t.State.Reply = t.State.Order + " is on its way"; return nil }

	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "shop", Iterate: true, First: "look up",
		Intents: orchestrator.Intents[State]{
			"look up": {Run: lookUp, Next: orchestrator.To("answer")}, // saved before the answer begins
			"answer":  {Run: answer, Next: orchestrator.End},
		},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	in := orchestrator.Input{RequestID: "request-1", Text: "Where is my order?"}
	for range 2 { // the second time it is the same request: nothing runs
		res, err := bot.Execute(context.Background(), "customer-7", in, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Turn, res.State.Reply, res.Replayed)
	}
	// Output:
	// 0 A-1042 is on its way false
	// 0 A-1042 is on its way true
}
