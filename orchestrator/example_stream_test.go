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
	"github.com/holdfast-go/holdfast/snapshot"
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

// A page is loaded again while the model writes. The second request has the id of the first: it joins the first, and
// shows the reply from its first word on. The intent runs once.
func ExampleOrchestrator_Stream_join() {
	type State struct{ Reply string }
	shown := make(chan bool)
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "poet",
		Intents: orchestrator.Intents[State]{"write": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Reply = "roses are red"
			t.Emit("roses ")
			<-shown
			t.Emit("are red")
			return nil
		}}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	in := orchestrator.Input{RequestID: "request-1", Text: "a poem, please"}
	first := bot.Stream(context.Background(), "session-1", in, nil)
	for ev := range first.Events() {
		if ev.Kind == orchestrator.Token {
			break // the reader leaves, and the turn goes on
		}
	}
	second := bot.Stream(context.Background(), "session-1", in, nil)
	for ev := range second.Events() {
		if ev.Delta != "" {
			fmt.Printf("%s %q\n", ev.RequestID, ev.Delta)
		}
		if ev.Delta == "roses " {
			close(shown)
		}
	}
	res, err := second.Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.State.Reply)
	// Output:
	// request-1 "roses "
	// request-1 "are red"
	// roses are red
}

// A bot shows what it does beside its words. Who listens gets it as JSON.
func ExampleTurn_Show() {
	type State struct{ N int }
	type Search struct {
		For   string `json:"for"`
		Found int    `json:"found"`
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "librarian",
		Intents: orchestrator.Intents[State]{
			"search": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
				return t.Show(Search{For: t.Input.Text, Found: 3})
			}},
		},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}
	s := bot.Stream(context.Background(), "session-1", orchestrator.Input{Text: "poems"}, nil)
	for ev := range s.Events() {
		if ev.Kind == orchestrator.Part {
			fmt.Println(ev.Intent, string(ev.Data))
		}
	}
	// Output:
	// search {"for":"poems","found":3}
}

// A call finishes an earlier input first. Its listener hears of its own turn, and with Earlier of both.
func ExampleCallOptions() {
	type State struct{ N int }
	type Turn = orchestrator.Turn[State]
	ctx, leave := context.WithCancel(context.Background())
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "count",
		Intents: orchestrator.Intents[State]{"count": {Run: func(ctx context.Context, t *Turn) error {
			leave() // the first caller goes away
			t.State.N++
			t.Emit(fmt.Sprint(t.State.N))
			return ctx.Err()
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	_, _ = bot.Execute(ctx, "session-1", orchestrator.Input{RequestID: "one"}, nil)
	in := orchestrator.Input{RequestID: "two"}
	_, err = bot.Execute(context.Background(), "session-1", in, &orchestrator.CallOptions{
		Earlier: true,
		OnEvent: func(ev orchestrator.Event) {
			if ev.Kind == orchestrator.Token {
				fmt.Println(ev.RequestID, ev.Seq, ev.Delta)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// one 4 1
	// two 4 2
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
