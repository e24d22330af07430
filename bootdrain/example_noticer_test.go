package bootdrain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A paced is a Bot that recovers a session when a place is free. It says for itself that it notices: what is embedded
// as a Bot has only the methods of Bot.
type paced struct {
	bootdrain.Bot
	places chan struct{}
}

func (p paced) Recover(ctx context.Context, session string) (outcome string, err error) {
	select {
	case p.places <- struct{}{}:
		defer func() { <-p.places }()
		return p.Bot.Recover(ctx, session)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// OtherStopped implements [bootdrain.Noticer]. A channel that is nil is never closed.
func (p paced) OtherStopped() <-chan struct{} {
	if n, ok := p.Bot.(bootdrain.Noticer); ok {
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

	var wrapped bootdrain.Bot = paced{bot, make(chan struct{}, 2)}
	_, ok := wrapped.(bootdrain.Noticer)
	fmt.Println("notices:", ok)
	// Output:
	// notices: true
}
