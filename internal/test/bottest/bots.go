package bottest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Say returns an intent that notes words.
func Say(words string) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, words)
		return nil
	}
}

// Echo is the smallest bot.
func Echo() Def {
	return Def{Name: "echo", Intents: Intents{"echo": {Run: func(_ context.Context, t *Turn) error {
		t.State.Said = append(t.State.Said, t.Input.Text)
		return nil
	}}}}
}

// Fork returns a bot with two branches, of which body is told.
func Fork(body func(ctx context.Context, name string, t *Turn) error) Def {
	branch := func(name string) Intent {
		return Intent{Next: orchestrator.End, Run: func(ctx context.Context, t *Turn) error {
			if err := body(ctx, name, t); err != nil {
				return err
			}
			t.State.Facts = nil
			if name == "a" {
				t.State.A += "a"
			} else {
				t.State.B += "b"
			}
			return nil
		}}
	}
	return Def{
		Name: "fork", Iterate: true, Intents: Intents{"a": branch("a"), "b": branch("b")},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
	}
}

// Hanging is a bot whose turns last until their context ends. Each turn first sends on started.
func Hanging() (d Def, started chan struct{}) {
	started = make(chan struct{})
	return Def{Name: "hang", Intents: Intents{"hang": {Run: func(ctx context.Context, t *Turn) error {
		if t.Input.Text == "quick" {
			return nil
		}
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}}}}, started
}

// Steps is a bot of three iterations, whose second may crash.
func Steps(die func()) Def {
	note := func(name string) func(context.Context, *Turn) error {
		return func(ctx context.Context, t *Turn) error {
			t.State.Said = append(t.State.Said, t.Input.Text+" "+name)
			t.AddUsage(orchestrator.Usage{Input: 1})
			if name == "two" && die != nil {
				die()
			}
			return nil
		}
	}
	return Def{
		Name: "steps", Iterate: true, First: "one",
		Intents: Intents{
			"one":   {Run: note("one"), Next: orchestrator.To("two")},
			"two":   {Run: note("two"), Next: orchestrator.To("three")},
			"three": {Run: note("three"), Next: orchestrator.End},
		},
	}
}

// BrokenSteps is the bot of steps, whose first step fails while away is set.
func BrokenSteps(away *atomic.Bool) Def {
	d := Steps(nil)
	run := d.Intents["one"].Run
	d.Intents["one"] = Intent{Next: orchestrator.To("two"), Run: func(ctx context.Context, t *Turn) error {
		if away.Load() {
			return ErrBoom
		}
		return run(ctx, t)
	}}
	return d
}

// Once1 parks a run at its second attempt.
var Once1 = Options{Limits: orchestrator.Limits{Attempts: 1}}

// DiesAtOnce is the bot of steps, whose process dies in the first step.
func DiesAtOnce(die func()) Def {
	d := Steps(nil)
	d.Intents["one"] = Intent{Next: orchestrator.To("two"), Run: func(context.Context, *Turn) error {
		die()
		return nil
	}}
	return d
}

// RefusesInput is a bot whose Begin refuses every input.
func RefusesInput() Def {
	d := Echo()
	d.Begin = func(context.Context, *Turn) error { return ErrRefusedInput }
	return d
}

// FailsTurns is a bot whose only intent fails.
func FailsTurns() Def {
	d := Echo()
	d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { return ErrRefusedInput }}
	return d
}

// Talks is a bot that says the words of its input one by one, and waits before each for a word on the channel.
func Talks(next <-chan struct{}) Def {
	return Def{Name: "talks", Intents: Intents{"say": {Run: func(ctx context.Context, t *Turn) error {
		for word := range strings.FieldsSeq(t.Input.Text) {
			select {
			case <-next:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			t.Emit(word + " ")
		}
		t.State.Said = append(t.State.Said, t.Input.Text)
		return nil
	}}}}
}

// Add returns a function of Put that adds to N.
func Add(n int) func(context.Context, *Turn) error {
	return func(_ context.Context, t *Turn) error {
		t.State.N += n
		return nil
	}
}

// Strict is a bot whose Begin and intent must not run.
func Strict(t *testing.T) Def {
	never := func(context.Context, *Turn) error { t.Error("Begin or an intent ran"); return nil }
	return Def{Name: "strict", Begin: never, Intents: Intents{"never": {Run: never}}}
}

// A LesserState is State before a deploy that added a field.
type LesserState struct {
	Said  []string
	Facts map[string]int
	A, B  string
}

// LesserDef is the definition of a bot with that state.
type LesserDef = orchestrator.Definition[LesserState]

// Lesser is echo before that deploy.
func Lesser() LesserDef {
	return LesserDef{Name: "echo", Intents: orchestrator.Intents[LesserState]{
		"echo": {Run: func(_ context.Context, t *orchestrator.Turn[LesserState]) error {
			t.State.Said = append(t.State.Said, t.Input.Text)
			return nil
		}},
	}}
}

// StartAs is one process of a bot with another state.
func StartAs[S any](t testing.TB, w World, d orchestrator.Definition[S]) *orchestrator.Orchestrator[S] {
	t.Helper()
	bot, err := orchestrator.New(d, w.Checkpoints, &Options{Snapshots: w.Snapshots, Logger: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return bot
}

// WantDrift checks what an error says would be lost.
func WantDrift(t testing.TB, err error, members, intents []string) {
	t.Helper()
	drift, ok := errors.AsType[*orchestrator.DriftError](err)
	if !ok {
		t.Fatalf("got %v, want drift", err)
	}
	if !slices.Equal(drift.Members, members) || !slices.Equal(drift.Intents, intents) {
		t.Errorf("drift of the members %q and the intents %q, want %q and %q",
			drift.Members, drift.Intents, members, intents)
	}
}

// A Compactor notes the ranges that it is given.
type Compactor struct {
	Ranges []orchestrator.Range
	Fail   error
}

// Run is a Compact function.
func (c *Compactor) Run(_ context.Context, r orchestrator.Range) (orchestrator.Usage, error) {
	c.Ranges = append(c.Ranges, r)
	return orchestrator.Usage{Input: 100}, c.Fail
}

// Spans joins the ranges.
func (c *Compactor) Spans() string {
	var all []string
	for _, r := range c.Ranges {
		all = append(all, fmt.Sprint(r.From, "-", r.Through))
	}
	return strings.Join(all, " ")
}

// A Conversation is stored by Deliver and loaded by History.
type Conversation struct {
	Down  atomic.Bool
	Lines []string
}

// Start is one process of a bot that delivers to the conversation.
func (c *Conversation) Start(t *testing.T, w World, more Def) *Bot {
	t.Helper()
	more.Deliver = func(_ context.Context, r *Result) error {
		if c.Down.Load() {
			return ErrDelivery
		}
		if !slices.Contains(c.Lines, r.Input.Text) {
			c.Lines = append(c.Lines, r.Input.Text)
		}
		return nil
	}
	return w.Start(t, more, Options{
		RequireDelivered: true,
		History: func(context.Context, string) (all []message.Message, err error) {
			for _, line := range c.Lines {
				all = append(all, message.User(line))
			}
			return all, nil
		},
	})
}

// Delivered returns the bot with a Deliver that does nothing.
func Delivered(d Def) Def {
	d.Deliver = func(context.Context, *Result) error { return nil }
	return d
}
