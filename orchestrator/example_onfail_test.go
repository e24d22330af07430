package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A model is away. The user gets an apology and no error, the operators get a line in the log, and the session goes on.
func ExampleDefinition_onFail() {
	type State struct{ Reply string }
	type Turn = orchestrator.Turn[State]
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "shop",
		Intents: orchestrator.Intents[State]{"answer": {Run: func(_ context.Context, t *Turn) error {
			return errors.New("the model is away")
		}}},
		OnFail: func(_ context.Context, t *Turn, err error) error {
			if errors.Is(err, orchestrator.ErrTurnTimeout) {
				return err // it fails, and the client may send it again
			}
			t.State.Reply = "I am sorry: I cannot answer now. A colleague will write to you."
			return nil
		},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	in := orchestrator.Input{Text: "Where is my order?"}
	res, err := bot.Execute(context.Background(), "customer-7", in, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Failed, res.State.Reply)
	// Output:
	// true I am sorry: I cannot answer now. A colleague will write to you.
}
