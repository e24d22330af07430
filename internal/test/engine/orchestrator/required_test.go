package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A conversation is stored by Deliver and loaded by History.
type conversation struct {
	down  atomic.Bool
	lines []string
}

var errDelivery = errors.New("database of messages is down")

func (c *conversation) start(t *testing.T, w world, more Def) *Bot {
	t.Helper()
	more.Deliver = func(_ context.Context, r *Result) error {
		if c.down.Load() {
			return errDelivery
		}
		if !slices.Contains(c.lines, r.Input.Text) {
			c.lines = append(c.lines, r.Input.Text)
		}
		return nil
	}
	return w.start(t, more, Options{
		RequireDelivered: true,
		History: func(context.Context, string) (all []message.Message, err error) {
			for _, line := range c.lines {
				all = append(all, message.User(line))
			}
			return all, nil
		},
	})
}

// A session whose reply is owed takes no further input. So no turn sees a conversation with a hole.
func TestRequireDelivered(t *testing.T) {
	backends(t, func(t *testing.T, w world) {
		c := new(conversation)
		d := echo()
		d.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
			t.State.N = len(t.History)
			return nil
		}}
		bot := c.start(t, w, d)
		c.down.Store(true)
		first := execute(t, bot, Input{RequestID: "1", Text: "a"})
		for _, in := range []Input{{RequestID: "2", Text: "b"}, {Text: "b"}} {
			_, err := bot.Execute(t.Context(), "s", in, nil)
			wantErr(t, err, orchestrator.ErrOwed)
			wantErr(t, err, errDelivery)
			wantOp(t, err, "begin")
			if errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("in doubt: %v", err)
			}
		}
		wantRuns(t, bot, 0)
		if again := execute(t, bot, Input{RequestID: "1", Text: "a"}); !again.Replayed || again.RunID != first.RunID {
			t.Errorf("a repeat is %+v", again)
		}
		c.down.Store(false)
		if second := execute(t, bot, Input{RequestID: "2", Text: "b"}); second.Turn != 1 || second.State.N != 1 {
			t.Errorf("turn %d saw %d messages", second.Turn, second.State.N)
		}
		if got := strings.Join(c.lines, " "); got != "a b" {
			t.Errorf("the conversation is %q", got)
		}
	})
}

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
			bot := c.start(t, w, echo())
			c.down.Store(true)
			execute(t, bot, Input{RequestID: "1", Text: "a"})
			// A process without the option has begun it.
			ctx, cancel := context.WithCancel(t.Context())
			cut := echo()
			cut.Intents["echo"] = Intent{Run: func(ctx context.Context, _ *Turn) error { cancel(); return ctx.Err() }}
			_, err := w.start(t, cut, Options{}).Execute(ctx, "s", Input{RequestID: "2", Text: "b"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
			if err := finish(t, bot); err != nil {
				t.Errorf("it is not finished: %v", err)
			}
			wantRuns(t, bot, 0)
			c.down.Store(false)
			execute(t, bot, Input{Text: "c"})
			if got := strings.Join(c.lines, " "); got != "a b c" {
				t.Errorf("delivered %q", got)
			}
		})
	}
}

// A reply that can never be delivered is given up by a person.
func TestRequireDeliveredSkip(t *testing.T) {
	c := new(conversation)
	bot := c.start(t, newWorld(), echo())
	c.down.Store(true)
	res := execute(t, bot, Input{Text: "a"})
	if skipped, err := bot.SkipDelivery(t.Context(), "s", res.RunID); !skipped || err != nil {
		t.Fatalf("skipped %v, %v", skipped, err)
	}
	c.down.Store(false)
	execute(t, bot, Input{Text: "b"})
}

func TestRequireDeliveredWithoutDeliver(t *testing.T) {
	_, err := orchestrator.New(echo(), new(checkpoint.Memory), &Options{RequireDelivered: true})
	if err == nil || !strings.Contains(err.Error(), "RequireDelivered without Deliver") {
		t.Errorf("got %v", err)
	}
}
