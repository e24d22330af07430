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

// asksBy is an intent that asks a model, and then does what after says.
func asksBy(s shop, after func() error, keep bool) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		said, err := s.Vendor.Once(ctx, t, "shoes",
			orchestrator.OnceOptions[string]{Class: ledger.Pure, KeepOnRetry: keep})
		t.State.Said = append(t.State.Said, said)
		if err != nil {
			return err
		}
		return after()
	}
}

func nothing() error { return nil }

// once fails the first time.
func once(err error) func() error {
	return func() error {
		failed := err
		err = nil
		return failed
	}
}

// What a crash has cut off finds what was recorded. What the bot has failed is tried again by decision, and asks again:
// by its Retry, by its request id, and by a drain. KeepOnRetry finds it then too. A crash of such an attempt finds what
// this attempt has recorded, and not what the failed one has.
func TestPureRecorded(t *testing.T) {
	in := Input{RequestID: "r", Text: "shoes"}
	type way func(*testing.T, shop, bool, *orchestrator.CallOptions) (*Result, error)
	repeated := func(t *testing.T, s shop, keep bool, o *orchestrator.CallOptions) (*Result, error) {
		failing := s.Start(t, single(asksBy(s, func() error { return errDeclined }, keep)), Options{})
		if _, err := failing.Execute(t.Context(), "s", in, nil); err == nil {
			t.Fatal("it did not fail")
		}
		return s.Start(t, single(asksBy(s, nothing, keep)), Options{}).Execute(t.Context(), "s", in, o)
	}
	for name, c := range map[string]struct {
		asked int
		turn  way
	}{
		"crash": {1, func(t *testing.T, s shop, keep bool, o *orchestrator.CallOptions) (*Result, error) {
			s.Crash(t, func(die func()) Def {
				return single(asksBy(s, func() error { die(); return nil }, keep))
			}, Input{})
			return s.Start(t, single(asksBy(s, nothing, keep)), Options{}).Resume(t.Context(), "s", o)
		}},
		"crash of a request": {1, func(
			t *testing.T, s shop, keep bool, o *orchestrator.CallOptions,
		) (*Result, error) {
			s.Crash(t, func(die func()) Def {
				return single(asksBy(s, func() error { die(); return nil }, keep))
			}, in)
			return s.Start(t, single(asksBy(s, nothing, keep)), Options{}).Execute(t.Context(), "s", in, o)
		}},
		"tried again": {2, func(
			t *testing.T, s shop, keep bool, o *orchestrator.CallOptions,
		) (*Result, error) {
			return s.Start(t, twice(asksBy(s, once(errTimeout), keep)), Options{}).Execute(t.Context(), "s", Input{}, o)
		}},
		"crash of the second try": {2, func(
			t *testing.T, s shop, keep bool, o *orchestrator.CallOptions,
		) (*Result, error) {
			tries := 0
			s.Crash(t, func(die func()) Def {
				return twice(asksBy(s, func() error {
					if tries++; tries == 2 {
						die()
						return nil
					}
					return errTimeout
				}, keep))
			}, Input{})
			return s.Start(t, twice(asksBy(s, once(errTimeout), keep)), Options{}).Resume(t.Context(), "s", o)
		}},
		"repeated": {2, repeated},
		"repeated, crash": {2, func(
			t *testing.T, s shop, keep bool, o *orchestrator.CallOptions,
		) (*Result, error) {
			failing := s.Start(t, single(asksBy(s, func() error { return errDeclined }, keep)), Options{})
			if _, err := failing.Execute(t.Context(), "s", in, nil); err == nil {
				t.Fatal("it did not fail")
			}
			s.Crash(t, func(die func()) Def {
				return single(asksBy(s, func() error { die(); return nil }, keep))
			}, in)
			return s.Start(t, single(asksBy(s, nothing, keep)), Options{}).Resume(t.Context(), "s", o)
		}},
		"drained": {2, func(
			t *testing.T, s shop, keep bool, o *orchestrator.CallOptions,
		) (*Result, error) {
			s.Crash(t, func(die func()) Def {
				return single(func(context.Context, *Turn) error { die(); return nil })
			}, in)
			failing := s.Start(t, single(asksBy(s, func() error { return errDeclined }, keep)), Options{})
			if _, err := failing.Recover(t.Context(), "s"); err == nil {
				t.Fatal("it did not fail")
			}
			return s.Start(t, single(asksBy(s, nothing, keep)), Options{}).Execute(t.Context(), "s", in, o)
		}},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprint(name, keep), func(t *testing.T) {
				s, d, asked := newShop(), new(diary), c.asked
				if keep {
					asked = 1
				}
				res, err := c.turn(t, s, keep, &orchestrator.CallOptions{OnEvent: d.Note})
				if err != nil {
					t.Fatal(err)
				}
				wantSaid(t, res.State, fmt.Sprintf("receipt %d for shoes", asked))
				if n := s.Vendor.Count(); n != asked {
					t.Errorf("asked %d times", n)
				}
				want := asked == 1 || strings.Contains(name, "crash")
				if found := strings.Contains(d.Kinds(), "effect.replayed"); found != want {
					t.Errorf("replayed %v: %s", found, d.Kinds())
				}
			})
		}
	}
}

// A Pure effect whose function has failed has left nothing: it may be named again in the same attempt. One that is
// recorded may not.
func TestPureFailedAgain(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		for range 3 {
			said, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Class: ledger.Pure})
			t.State.Said = append(t.State.Said, fmt.Sprint(said, err))
		}
		return nil
	}), Options{})
	res := execute(t, bot, Input{})
	want := []string{errTimeout.Error(), "receipt 2 for shoes<nil>", ledger.ErrRepeated.Error()}
	if !slices.Equal(res.State.Said, want) {
		t.Errorf("%q, want %q", res.State.Said, want)
	}
	if e := s.Effect(t); e.State != ledger.Completed {
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
		bot := s.Start(t, single(asksBy(s, nothing, true)), Options{
			Ledger: deafLedger{s.Ledger, c.err}, Limits: orchestrator.Limits{SettleTimeout: 10 * time.Millisecond},
		})
		_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
		wantErr(t, err, c.want)
		if n := s.Vendor.Count(); n > 0 {
			t.Errorf("%v: asked %d times", c.err, n)
		}
	}
}
