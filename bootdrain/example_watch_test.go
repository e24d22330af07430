package bootdrain_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A caller goes away in the middle of a turn. The watch finishes it.
func ExampleWatch() {
	type State struct{ Reply string }
	request, leave := context.WithCancel(context.Background())
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support",
		Intents: orchestrator.Intents[State]{"ask": {Run: func(ctx context.Context, t *orchestrator.Turn[State]) error {
			leave() // the caller goes away
			t.State.Reply = "a reply to " + t.Input.Text
			return ctx.Err()
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = bot.Execute(request, "session-1", orchestrator.Input{Text: "hello"}, nil)
	fmt.Println("outcome unknown:", errors.Is(err, orchestrator.ErrIndeterminate))

	ctx, stop := context.WithCancelCause(context.Background())
	err = bootdrain.Watch(ctx, bot, &bootdrain.Options{
		Every:  10 * time.Millisecond, // 5 seconds by default
		Logger: slog.New(slog.DiscardHandler),
		OnRun: func(r bootdrain.Run) {
			fmt.Println(r.Session, r.Outcome, r.Err)
			stop(errors.New("the service ends"))
		},
	})
	fmt.Println("watched until", err)
	// Output:
	// outcome unknown: true
	// session-1 settled <nil>
	// watched until the service ends
}
