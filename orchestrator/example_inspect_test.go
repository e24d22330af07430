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

// A page shows an operator what became of a session: a turn has settled, its reply is owed, and the next turn was cut
// off after its first iteration.
func ExampleOrchestrator_Inspect() {
	ctx, leave := context.WithCancel(context.Background())
	nothing := func(context.Context, *orchestrator.Turn[string]) error { return nil }
	bot, err := orchestrator.New(orchestrator.Definition[string]{
		Name: "shop", Iterate: true, First: "find",
		Intents: orchestrator.Intents[string]{
			"find": {Run: nothing, Next: orchestrator.To("reply")},
			"reply": {Run: func(ctx context.Context, t *orchestrator.Turn[string]) error {
				if t.Index == 1 {
					leave() // the caller goes away
				}
				return ctx.Err()
			}, Next: orchestrator.End},
		},
		Deliver: func(context.Context, *orchestrator.Result[string]) error { return errors.New("mail server is down") },
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "s", orchestrator.Input{Text: "hello"}, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := bot.Execute(ctx, "s", orchestrator.Input{Text: "where is it?", RequestID: "r2"}, nil); err == nil {
		log.Fatal("the turn was not cut off")
	}
	st, err := bot.Inspect(context.Background(), "s")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("turn %d, owed %d, owner %q\n", st.Turn, st.Owed, st.Owner)
	fmt.Println("run for", st.Run.RequestID, "is", st.Run.Status, "at iteration", st.Run.Iteration)
	// Output:
	// turn 0, owed 1, owner ""
	// run for r2 is waiting at iteration 1
}
