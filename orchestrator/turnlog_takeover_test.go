package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A process without a turn log accepts an input that no log takes, and dies. A process with one finishes the turn, and
// the log has its phases without the input.
func TestInputOfAProcessWithoutLog(t *testing.T) {
	in := Input{RequestID: "r", Text: strings.Repeat("x", 1<<20-2)}
	for name, ends := range map[string]func(t *testing.T, bot *Bot) string{
		"finished": func(t *testing.T, bot *Bot) string {
			if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
				t.Error(err)
			}
			return "started settled(complete)"
		},
		"abandoned": func(t *testing.T, bot *Bot) string {
			if err := abandon(t, bot, "s"); err != nil {
				t.Error(err)
			}
			return "started settled(cancelled)"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWorld(), new(watchedLog)
			w.Crash(t, func(die func()) Def {
				d := echo()
				d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { die(); return nil }}
				return d
			}, in)
			bot := w.Start(t, echo(), Options{TurnLog: l})
			l.wantPhases(t, ends(t, bot))
			execute(t, bot, Input{Text: "b"})
		})
	}
}

// A turn records faster than one phase a millisecond, and is suspended. A person answers at once, and another process
// goes on. Its phases are later than those before.
func TestStampsOfSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l, effects := newWorld(), new(turnlog.Memory), new(ledger.Memory)
		d := Def{Name: "agent", Intents: Intents{"model": {Run: func(ctx context.Context, t *Turn) error {
			for range 50 {
				if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
					return err
				}
			}
			fails := func(context.Context, string) (string, error) { return "", errTimeout }
			_, err := orchestrator.Once(ctx, t, "pay", fails, nil)
			return err
		}}}}
		o := Options{TurnLog: l, Ledger: effects}
		in := Input{Text: "x", RequestID: "r"}
		first := w.Start(t, d, o)
		_, err := first.Execute(t.Context(), "s", in, nil)
		doubt, ok := errors.AsType[*orchestrator.InDoubtError](err)
		if !ok {
			t.Fatalf("got %v, want an effect in doubt", err)
		}
		answer := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"paid"`)}
		if err := ledger.Resolve(t.Context(), effects, doubt.Effects[0], answer); err != nil {
			t.Fatal(err)
		}
		res := execute(t, w.Start(t, d, o), in)
		entries, err := l.Restore(t.Context(), res.RunID)
		if err != nil {
			t.Fatal(err)
		}
		last := entries[len(entries)-1]
		if len(entries) != 102 || last.Phase != turnlog.Settled {
			t.Errorf("%d entries, the last is %s", len(entries), last.Phase)
		}
		for i, e := range entries[1:] {
			if !entries[i].At.Before(e.At) {
				t.Fatalf("entry %d is at %v, and the one before at %v", i+1, e.At, entries[i].At)
			}
		}
	})
}

// A turn records faster than one phase a millisecond, and its caller goes away. The next call goes on at once. Its
// phases are later than those before.
func TestStampsOfLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, l := newWorld(), new(turnlog.Memory)
		ctx, leave := context.WithCancel(t.Context())
		d := Def{Name: "agent", Intents: Intents{"model": {Run: func(ctx context.Context, t *Turn) error {
			for range 50 {
				if err := t.Record(ctx, turnlog.LLMComplete, nil); err != nil {
					return err
				}
			}
			leave()
			return ctx.Err()
		}}}}
		bot, in := w.Start(t, d, Options{TurnLog: l}), Input{Text: "x", RequestID: "r"}
		if _, err := bot.Execute(ctx, "s", in, nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
			t.Fatalf("got %v, want a turn that was left", err)
		}
		res := execute(t, bot, in)
		entries, err := l.Restore(t.Context(), res.RunID)
		if last := len(entries) - 1; err != nil || last != 101 || entries[last].Phase != turnlog.Settled {
			t.Errorf("%d entries, %v", len(entries), err)
		}
	})
}
