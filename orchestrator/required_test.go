package orchestrator_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A run that has begun is finished by some process, and delivered in its order.
func TestRequireDeliveredFinishes(t *testing.T) {
	for name, finish := range map[string]func(*testing.T, *Bot) error{
		"the same request": func(t *testing.T, b *Bot) error {
			_, err := b.Execute(t.Context(), "s", Input{RequestID: "2", Text: "b"}, nil)
			return err
		},
		"resume": func(t *testing.T, b *Bot) error { _, err := b.Resume(t.Context(), "s", nil); return err },
		"drain":  func(t *testing.T, b *Bot) error { _, err := b.Recover(t.Context(), "s"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWorld(), new(conversation)
			bot := c.Start(t, w, echo())
			c.Down.Store(true)
			execute(t, bot, Input{RequestID: "1", Text: "a"})
			// A process without the option has begun it.
			ctx, cancel := context.WithCancel(t.Context())
			cut := echo()
			cut.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error { cancel(); return ctx.Err() }}
			_, err := w.Start(t, cut, Options{}).Execute(ctx, "s", Input{RequestID: "2", Text: "b"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
			if err := finish(t, bot); err != nil {
				t.Errorf("it is not finished: %v", err)
			}
			wantRuns(t, bot, 0)
			c.Down.Store(false)
			execute(t, bot, Input{Text: "c"})
			if got := strings.Join(c.Lines, " "); got != "a b c" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}

// A reply that can never be delivered is given up by a person.
func TestRequireDeliveredSkip(t *testing.T) {
	c := new(conversation)
	bot := c.Start(t, newWorld(), echo())
	c.Down.Store(true)
	res := execute(t, bot, Input{Text: "a"})
	if skipped, err := bot.SkipDelivery(t.Context(), "s", res.RunID); !skipped || err != nil {
		t.Fatalf("skipped %v, %v", skipped, err)
	}
	c.Down.Store(false)
	execute(t, bot, Input{Text: "b"})
}

func TestRequireDeliveredWithoutDeliver(t *testing.T) {
	_, err := orchestrator.New(echo(), new(checkpoint.Memory), &Options{RequireDelivered: true})
	if err == nil || !strings.Contains(err.Error(), "RequireDelivered without Deliver") {
		t.Errorf("got %v", err)
	}
}
