package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A page shows the reply while the model writes it. The turn does not wait for the page.
func ExampleOrchestrator_Stream() {
	type State struct{ Reply string }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "poet",
		Intents: orchestrator.Intents[State]{"write": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			for word := range strings.FieldsSeq("roses are red") {
				t.Emit(word)
				t.State.Reply += word + " "
			}
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	call := bot.Stream(context.Background(), "session-1", orchestrator.Input{Text: "a poem, please"}, nil)
	for ev := range call.Events() {
		fmt.Printf("%s %q\n", ev.Kind, ev.Delta)
	}
	res, err := call.Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Reply)
	// Output:
	// turn.started ""
	// routed ""
	// intent.started ""
	// token "roses"
	// token "are"
	// token "red"
	// intent.ended ""
	// turn.settled ""
	// roses are red
}

// A reply is delivered after its turn has settled. If the delivery fails, the reply is owed, and comes first the next
// time.
func ExampleDefinition_deliver() {
	type State struct{ Reply string }
	mail := errors.New("mail server down")
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "mailer",
		Intents: orchestrator.Intents[State]{
			"answer": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				t.State.Reply = "re: " + t.Input.Text
				return nil
			}},
		},
		Deliver: func(_ context.Context, r *orchestrator.Result[State]) error {
			if mail == nil {
				fmt.Println("sent:", r.State.Reply) // under the id r.RunID: it may be sent again
			}
			return mail
		},
	}, new(checkpoint.Memory), &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"one", "two"} {
		res, err := bot.Execute(context.Background(), "session-1", orchestrator.Input{Text: text}, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("settled:", res.Turn)
		mail = nil
	}
	// Output:
	// settled: 0
	// sent: re: one
	// sent: re: two
	// settled: 1
}
