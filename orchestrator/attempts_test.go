package orchestrator_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// When an attempt counts, and what a run keeps when another owner goes on with it.

// hang is a function of the bot that takes longer than its caller waits.
func hang(ctx context.Context, _ *Turn) error { <-ctx.Done(); return ctx.Err() }

// briefly is a call with a short deadline.
func briefly(t *testing.T, bot *Bot, c *orchestrator.CallOptions) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := bot.Execute(ctx, "s", Input{Text: "a", RequestID: "r"}, c)
	return err
}

// If a function of the bot takes longer than all callers wait, the run is parked in the end.
func TestHangingAnywhereParks(t *testing.T) {
	calls := 0
	for name, bot := range map[string]struct {
		Def
		history func(context.Context, string) ([]message.Message, error)
	}{
		"intent": {Def{Intents: Intents{"a": {Run: hang}}}, nil},
		"route": {Def{
			Intents: Intents{"a": {Run: hang}},
			Route:   func(ctx context.Context, t *Turn) (Next, error) { return Next{}, hang(ctx, t) },
		}, nil},
		"fan-out": {Def{Iterate: true, First: "first", Intents: Intents{
			"first": {Run: say("x"), Next: orchestrator.To("a", "b")},
			"a":     {Run: hang, Next: orchestrator.End}, "b": {Run: hang, Next: orchestrator.End},
		}}, nil},
		"history": {
			Def{Intents: Intents{"a": {Run: hang}}},
			func(ctx context.Context, _ string) ([]message.Message, error) {
				if calls == 0 {
					return nil, nil // the run has to be in flight
				}
				return nil, hang(ctx, nil)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bot.Name = "hangs"
				b := newWorld().Start(t, bot.Def,
					Options{History: bot.history, Limits: orchestrator.Limits{Attempts: 3}})
				var err error
				for calls = range 6 {
					err = briefly(t, b, nil)
				}
				wantErr(t, err, orchestrator.ErrParked)
			})
		})
	}
}

// Force starts the count of attempts anew, so that the run is not parked at once.
func TestForcedRunCountsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := hang
		d := Def{Name: "hangs", Intents: Intents{"a": {Run: func(ctx context.Context, t *Turn) error {
			return run(ctx, t)
		}}}}
		bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{Attempts: 3}})
		for range 4 {
			_ = briefly(t, bot, nil)
		}
		if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Parked {
			t.Fatalf("%s", run.Status)
		}
		wantErr(t, briefly(t, bot, &orchestrator.CallOptions{Force: true}), orchestrator.ErrIndeterminate)
		run = say("done")
		if err := briefly(t, bot, nil); err != nil {
			t.Error(err)
		}
	})
}

// The usage of a child counts in its parent's turn. It also counts if the parent's turn is resumed and the child does
// not run again.
func TestUsageOfReplayedChild(t *testing.T) {
	w := newWorld()
	child := echo()
	child.Name = "child"
	child.Intents["echo"] = Intent{Run: func(_ context.Context, t *Turn) error {
		t.AddUsage(orchestrator.Usage{Input: 7})
		return nil
	}}
	tool := w.Start(t, child, Options{}).Tool("child", "", nil, nil)
	parent := func(die func()) Def {
		return Def{Name: "parent", Intents: Intents{"ask": {Run: func(ctx context.Context, _ *Turn) error {
			_, err := tool.Call(ctx, "call-1", json.RawMessage(`{"input":"x"}`))
			if die != nil {
				die()
			}
			return err
		}}}}
	}
	w.Crash(t, parent, Input{Text: "a"})
	res, err := w.Start(t, parent(nil), Options{}).Resume(t.Context(), "s", nil)
	if err != nil || res.Usage.Input != 7 {
		t.Errorf("%+v, %v", res, err)
	}
}
