package bootdrain_test

import (
	"context"
	"fmt"
	"iter"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A tenant is a Bot that recovers the sessions of one tenant. It says for itself that it notices: what is embedded as a
// Bot has only the methods of Bot.
type tenant struct {
	bootdrain.Bot
	prefix string
}

func (t tenant) Recoverable(ctx context.Context, all bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for session, err := range t.Bot.Recoverable(ctx, all) {
			if err == nil && !strings.HasPrefix(session, t.prefix) {
				continue
			}
			if !yield(session, err) {
				return
			}
		}
	}
}

// OtherStopped implements [bootdrain.Noticer]. A channel that is nil is never closed.
func (t tenant) OtherStopped() <-chan struct{} {
	if n, ok := t.Bot.(bootdrain.Noticer); ok {
		return n.OtherStopped()
	}
	return nil
}

// A Bot that wraps an Orchestrator passes on what the Orchestrator notices. Otherwise Watch finishes the runs of a
// process that has stopped in its next pass over all runs.
func ExampleNoticer() {
	type State struct{ Reply string }
	echo := func(_ context.Context, t *orchestrator.Turn[State]) error {
		t.State.Reply = t.Input.Text
		return nil
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "support", Intents: orchestrator.Intents[State]{"echo": {Run: echo}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		log.Fatal(err)
	}

	var wrapped bootdrain.Bot = tenant{bot, "acme/"}
	_, ok := wrapped.(bootdrain.Noticer)
	fmt.Println("notices:", ok)
	// Output:
	// notices: true
}
