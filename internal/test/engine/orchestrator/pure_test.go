package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// asks is an intent that asks a model, and then does what after says.
func (s shop) asks(after func() error) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		said, err := s.vendor.once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Class: ledger.Pure})
		t.State.Said = append(t.State.Said, said)
		if err != nil {
			return err
		}
		return after()
	}
}

func nothing() error { return nil }

// What is recorded of a Pure effect is not asked again: after a crash, when the function is tried again, and when the
// request of a failed turn is repeated.
func TestPureRecorded(t *testing.T) {
	in := Input{RequestID: "r", Text: "shoes"}
	type way func(*testing.T, shop, *orchestrator.CallOptions) (*orchestrator.Result[State], error)
	for name, turn := range map[string]way{
		"crash": func(t *testing.T, s shop, o *orchestrator.CallOptions) (*orchestrator.Result[State], error) {
			s.crash(t, func(die func()) Def { return single(s.asks(func() error { die(); return nil })) }, Input{})
			return s.start(t, single(s.asks(nothing)), Options{}).Resume(t.Context(), "s", o)
		},
		"tried again": func(t *testing.T, s shop, o *orchestrator.CallOptions) (*orchestrator.Result[State], error) {
			fails := []error{errTimeout}
			return s.start(t, twice(s.asks(func() error {
				if len(fails) == 0 {
					return nil
				}
				fails = nil
				return errTimeout
			})), Options{}).Execute(t.Context(), "s", Input{}, o)
		},
		"repeated": func(t *testing.T, s shop, o *orchestrator.CallOptions) (*orchestrator.Result[State], error) {
			failing := s.start(t, single(s.asks(func() error { return errDeclined })), Options{})
			if _, err := failing.Execute(t.Context(), "s", in, nil); err == nil {
				t.Fatal("it did not fail")
			}
			return s.start(t, single(s.asks(nothing)), Options{}).Execute(t.Context(), "s", in, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, d := newShop(), new(diary)
			res, err := turn(t, s, &orchestrator.CallOptions{OnEvent: d.note})
			if err != nil {
				t.Fatal(err)
			}
			wantSaid(t, res.State, "receipt 1 for shoes")
			if n := s.vendor.count(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if !strings.Contains(d.kinds(), "effect.replayed") {
				t.Errorf("no effect.replayed in %s", d.kinds())
			}
		})
	}
}

// A Pure effect whose function has failed has left nothing: it may be named again in the same attempt. One that is
// recorded may not.
func TestPureFailedAgain(t *testing.T) {
	s := newShop()
	s.vendor.fail = []error{errTimeout}
	bot := s.start(t, single(func(ctx context.Context, t *Turn) error {
		for range 3 {
			said, err := s.vendor.once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Class: ledger.Pure})
			t.State.Said = append(t.State.Said, fmt.Sprint(said, err))
		}
		return nil
	}), Options{})
	res := execute(t, bot, Input{})
	want := []string{errTimeout.Error(), "receipt 2 for shoes<nil>", ledger.ErrRepeated.Error()}
	if !slices.Equal(res.State.Said, want) {
		t.Errorf("%q, want %q", res.State.Said, want)
	}
	if e := s.effect(t); e.State != ledger.Completed {
		t.Errorf("%+v", e)
	}
}

// deafLedger answers a question for one effect with an error.
type deafLedger struct {
	ledger.Ledger
	err error
}

func (l deafLedger) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if q.ID == "" {
		return l.Ledger.Effects(ctx, q)
	}
	return func(yield func(ledger.Effect, error) bool) { yield(ledger.Effect{ID: q.ID}, l.err) }
}

// If it cannot be told whether a result is recorded, nothing is asked. A damaged row concerns its effect, and any other
// error leaves the turn in flight.
func TestPureUnreadable(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{ledger.Damaged("x", errors.New("no state")), ledger.ErrDamaged},
		{errors.New("no route to host"), orchestrator.ErrIndeterminate},
	} {
		s := newShop()
		bot := s.start(t, single(s.asks(nothing)), Options{
			Ledger: deafLedger{s.ledger, c.err}, Limits: orchestrator.Limits{SettleTimeout: 10 * time.Millisecond},
		})
		_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
		wantErr(t, err, c.want)
		if n := s.vendor.count(); n > 0 {
			t.Errorf("%v: asked %d times", c.err, n)
		}
	}
}
