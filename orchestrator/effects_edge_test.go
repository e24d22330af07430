package orchestrator_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The lease has expired while the ledger was slow to issue an effect. The function of the effect does not start:
// another owner may be at work on the session.
func TestExpiredBeforeEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		s.Checkpoints = &renewer{Store: s.Checkpoints, fail: func([]checkpoint.Lease) error { return errAway }}
		l := faulttest.Ledger(s.Ledger, faulttest.On(
			func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
				err := next(ctx)
				time.Sleep(2 * time.Second)
				return err
			}, "Issue"))
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, err := s.Vendor.Once(context.WithoutCancel(ctx), t, "shoes", orchestrator.OnceOptions[string]{})
			return err
		}), Options{Ledger: l, Limits: orchestrator.Limits{LeaseTTL: time.Second, DeadAfter: -1}})
		_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		if n := s.Vendor.Count(); n > 0 {
			t.Errorf("paid %d times by an owner whose lease has expired", n)
		}
		if e := s.Effect(t); e.State != ledger.Failed {
			t.Errorf("the effect is %s: it was not begun", e.State)
		}
	})
}

// A run that is parked when it is taken up has left an effect Issued. It becomes Unknown: a person can answer for it.
func TestParkedRunsEffects(t *testing.T) {
	s := newShop()
	s.Crash(t, diesPaying(s, orchestrator.OnceOptions[string]{}), Input{Text: "shoes"})
	if e := s.Effect(t); e.State != ledger.Issued {
		t.Fatalf("the effect is %s", e.State)
	}
	bot := s.Start(
		t,
		single(pays(s, orchestrator.OnceOptions[string]{})),
		Options{Limits: orchestrator.Limits{Attempts: 1}},
	)
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "parked" || err != nil {
		t.Fatalf("%s: %v", outcome, err)
	}
	e := s.Effect(t)
	if e.State != ledger.Unknown {
		t.Errorf("the effect of a parked run is %s", e.State)
	}
	landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
	if err := ledger.Resolve(t.Context(), s.Ledger, e.ID, landed); err != nil {
		t.Error(err)
	}
}

// A former owner suspends a run after its next owner has found it, and before that one adopts it. The next owner finds
// that the run waits, and runs nothing.
func TestSuspendedMeanwhile(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	paying, goOn, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	former := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		close(paying)
		<-goOn
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		return err
	}), Options{})
	in := Input{RequestID: "r", Text: "shoes"}
	go func() {
		_, err := former.Execute(context.WithoutCancel(t.Context()), "s", in, nil)
		over <- err
	}()
	<-paying
	s.FreeUp(t, "shop")
	w, first := s.World, true
	w.Snapshots = faulttest.Snapshots(s.Snapshots, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			if first {
				first = false
				close(goOn)
				wantDoubt(t, <-over, true)
			}
			return next(ctx)
		}, "Adopt"))
	ran := 0
	bot := shop{
		World:  w,
		Ledger: s.Ledger,
		Vendor: s.Vendor,
	}.Start(
		t,
		single(func(context.Context, *Turn) error { ran++; return nil }),
		Options{},
	)
	_, err := bot.Execute(t.Context(), "s", in, nil)
	if wantDoubt(t, err, true); ran > 0 {
		t.Errorf("ran %d times", ran)
	}
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Suspended {
		t.Errorf("the run is %s", run.Status)
	}
}

// The ledger does not answer when a turn settles with an effect that a goroutine has left behind, or when one fails.
// The turn is told neither as settled nor as failed, and is left in flight.
func TestLeftBehindLedgerAway(t *testing.T) {
	for name, end := range map[string]error{"settles": nil, "fails": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				away := false
				l := faulttest.Ledger(s.Ledger, faulttest.On(
					func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
						if away {
							return errAway
						}
						return next(ctx)
					}, "Finish"))
				paying, goOn := make(chan struct{}), make(chan struct{})
				var left sync.WaitGroup
				bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
					left.Go(func() {
						_, _ = orchestrator.Once(
							context.WithoutCancel(ctx),
							t,
							"pay",
							func(context.Context, string) (int, error) {
								close(paying)
								<-goOn
								return 1, nil
							},
							nil,
						)
					})
					<-paying
					away = true
					return end
				}), Options{Ledger: l})
				_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
				wantErr(t, err, orchestrator.ErrIndeterminate, errAway)
				if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting {
					t.Errorf("the run is %s", run.Status)
				}
				away = false
				close(goOn)
				left.Wait()
			})
		})
	}
}

// Other arguments than before, and the effect may have happened: a person is asked, whatever the class. If it certainly
// did not happen, the turn fails.
func TestOtherArguments(t *testing.T) {
	for name, c := range map[string]struct {
		fail error
		ask  bool
	}{"in doubt": {errTimeout, true}, "failed": {ledger.NotDone(errDeclined), false}} {
		s := newShop()
		s.Vendor.Honours, s.Vendor.Fail = true, []error{c.fail}
		words := "Dear customer"
		bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
			defer func() { words = "Hello" }()
			_, err := s.Vendor.Once(
				ctx,
				t,
				"shoes",
				orchestrator.OnceOptions[string]{Class: ledger.Idempotent, Args: words},
			)
			return err
		}), Options{})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		if wantErr(t, err, ledger.ErrChanged); c.ask {
			wantDoubt(t, err, true)
		} else if !definite(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("%s: paid %d times", name, n)
		}
	}
}

// hiding is an error of a library that hides what it wraps.
type hiding struct{ err error }

func (h hiding) Error() string { return "the model is confused" }

func (h hiding) Hidden() error { return h.err }

// A suspension counts no attempt, and the doubt of a run is forgotten when it goes on: the next time it waits for what
// is in doubt then. A doubt behind an error that hides what it wraps is doubt.
func TestSuspendedAgainAndAgain(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout, errTimeout, errTimeout}
	things := []string{"shoes", "boots", "socks"}
	bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		for _, what := range things {
			if _, err := s.Vendor.Once(ctx, t, what, orchestrator.OnceOptions[string]{Each: what}); err != nil {
				return hiding{err}
			}
		}
		return nil
	}), Options{Limits: orchestrator.Limits{Attempts: 2}})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	for i := range things {
		d := theDoubt(t, err, true)
		if all := s.Effects(t, ledger.Query{Open: true}); len(all) != 1 || len(d.Effects) != 1 ||
			d.Effects[0] != all[0].ID {
			t.Fatalf("waits for %q, and in doubt are %+v", d.Effects, all)
		}
		if run := wantRuns(t, bot, 1)[0]; run.Attempt > 1 {
			t.Errorf("attempt %d after %d suspensions", run.Attempt, i+1)
		}
		st, inspected := bot.Inspect(t.Context(), "s")
		if inspected != nil || len(st.Run.Effects) != 1 || st.Run.Effects[0] != d.Effects[0] {
			t.Errorf("Inspect says %+v: %v", st.Run, inspected)
		}
		landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
		if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
			t.Fatal(err)
		}
		_, err = bot.Resume(t.Context(), "s", nil)
	}
	if err != nil {
		t.Error(err)
	}
}

// Trying again would not help what a person has to answer, whatever hides the doubt.
func TestHiddenDoubtIsNotRetried(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	ran := 0
	bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
		ran++
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		return hiding{err}
	}), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	if wantDoubt(t, err, true); ran != 1 {
		t.Errorf("ran %d times", ran)
	}
}

// The ledger is away, and the function says something else. The run is left because of the ledger, with a caller and
// without one: what the function has said since does not count.
func TestLedgerAwayIsTheReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		s.Crash(
			t,
			diesPaying(s, orchestrator.OnceOptions[string]{Class: ledger.Idempotent}),
			Input{RequestID: "r", Text: "shoes"},
		)
		l := faulttest.Ledger(s.Ledger, faulttest.On(
			func(context.Context, faulttest.Call, func(context.Context) error) error { return errAway }, "Issue"))
		confused := errors.New("the model is confused")
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, _ = s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{Class: ledger.Idempotent})
			return confused
		}), Options{Ledger: l})
		for name, call := range map[string]func() error{
			"Recover": func() error { _, err := bot.Recover(t.Context(), "s"); return err },
			"Resume":  func() error { _, err := bot.Resume(t.Context(), "s", nil); return err },
		} {
			time.Sleep(time.Hour) // until it is due
			err := call()
			wantErr(t, err, errAway, orchestrator.ErrIndeterminate)
			if errors.Is(err, confused) {
				t.Errorf("%s says %v", name, err)
			}
		}
	})
}

// What a run has waited for is forgotten with the next save.
func TestAnsweredDoubtIsForgotten(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	var bot *Bot
	saved := ""
	bot = s.Start(t, Def{Name: "shop", Iterate: true, First: "pay", Intents: Intents{
		"pay": {Run: pays(s, orchestrator.OnceOptions[string]{}), Next: orchestrator.To("look")},
		"look": {Run: func(context.Context, *Turn) error {
			saved = string(wantRuns(t, bot, 1)[0].Payload)
			return nil
		}, Next: orchestrator.End},
	}}, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "shoes"}, nil)
	d := theDoubt(t, err, true)
	landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
		t.Fatal(err)
	}
	execute(t, bot, Input{RequestID: "r", Text: "shoes"})
	if saved == "" || strings.Contains(saved, "doubt") {
		t.Errorf("saved: %s", saved)
	}
}
