package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A planted secret is in no row of the ledger and in no log, wherever it stands: in the arguments, the result or the
// text of an error.
func TestRedacted(t *testing.T) {
	const secret, other = "4111-1111-1111-1111", "4222-2222-2222-2222"
	redact := func(e ledger.Effect) ledger.Effect {
		hide := func(doc json.RawMessage) json.RawMessage {
			if doc == nil {
				return nil
			}
			return json.RawMessage(strings.ReplaceAll(string(doc), secret, "****"))
		}
		e.Args, e.Result, e.Error = hide(e.Args), hide(e.Result), string(hide(json.RawMessage(e.Error)))
		return e
	}
	for _, class := range []ledger.Class{ledger.Ask, ledger.Pure, ledger.Idempotent} {
		t.Run(fmt.Sprint(class), func(t *testing.T) {
			s := newShop()
			var log bytes.Buffer
			fail := error(nil)
			card, got := secret, ""
			d := single(func(ctx context.Context, t *Turn) (err error) {
				got, err = orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
					return "paid with " + secret, fail
				}, &orchestrator.OnceOptions[string]{
					Class: class, Key: t.Input.Text, Args: map[string]string{"card": card},
				})
				return err
			})
			o := Options{
				Effects: orchestrator.Effects{Redact: redact, SumKey: []byte("k")},
				Logger:  slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			}
			bot := s.Start(t, d, o)
			execute(t, bot, Input{Text: "1"})
			if got != "paid with "+secret {
				t.Errorf("the call that paid got %q", got)
			}
			if e := s.Effect(t); !e.Redacted || string(e.Result) != `"paid with ****"` || class != ledger.Pure && string(e.Args) != `{"card":"****"}` {
				t.Errorf("%+v", e)
			}
			if class != ledger.Pure {
				_, err := bot.Execute(t.Context(), "s", Input{Text: "1"}, nil)
				wantErr(t, err, ledger.ErrRedacted)
				card = other
				_, err = bot.Execute(t.Context(), "s", Input{Text: "1"}, nil)
				wantErr(t, err, ledger.ErrChanged)
				o.Effects.SumKey = []byte("another")
				_, err = s.Start(t, d, o).Execute(t.Context(), "s", Input{Text: "1"}, nil)
				wantErr(t, err, ledger.ErrRedacted) // sums of two keys are not compared
			}
			card, fail = secret, errors.New("no money on "+secret)
			if _, err := bot.Execute(t.Context(), "s", Input{Text: "2"}, nil); err == nil {
				t.Error("paid")
			}
			var runs []snapshot.Run
			k := snapshot.Key{Orchestrator: "shop", Session: "s"} // a list of all has no payload of what is suspended
			for r, err := range s.Snapshots.Runs(t.Context(), snapshot.Query{Key: k}) {
				if err != nil {
					t.Fatal(err)
				}
				runs = append(runs, r)
			}
			kept, err := json.Marshal([]any{s.Effects(t, ledger.Query{}), runs})
			if err != nil {
				t.Fatal(err)
			}
			for what, text := range map[string]string{"a table": string(kept), "the log": log.String()} {
				if strings.Contains(text, secret) || strings.Contains(text, other) {
					t.Errorf("%s has the secret: %s", what, text)
				}
			}
		})
	}
}

// A hook that panics keeps nothing.
func TestRedactPanics(t *testing.T) {
	for when, want := range map[string]ledger.State{"arguments": "", "result": ledger.Unknown} {
		s := newShop()
		paid := 0
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
				paid++
				return "secret", nil
			}, &orchestrator.OnceOptions[string]{Args: "secret"})
			return err
		}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
			if when == "arguments" || e.Result != nil {
				panic("hook")
			}
			e.Args = nil
			return e
		}}})
		if _, err := bot.Execute(t.Context(), "s", Input{}, nil); err == nil {
			t.Fatal("settled")
		}
		all := s.Effects(t, ledger.Query{})
		if (want == "") != (len(all) == 0) ||
			want != "" && (all[0].State != want || all[0].Args != nil || all[0].Result != nil) {
			t.Errorf("%s: %+v", when, all)
		}
	}
}

// New refuses a sum that would tell what was redacted.
func TestRedactNeedsSumKey(t *testing.T) {
	w := newWorld()
	_, err := orchestrator.New(echo(), w.Checkpoints, &Options{
		Effects: orchestrator.Effects{Redact: func(e ledger.Effect) ledger.Effect { return e }},
	})
	if err == nil || !strings.Contains(err.Error(), "SumKey") {
		t.Error(err)
	}
}
