package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A run waits for a person. Then the bot decides otherwise, or is deployed with other names. The answer counts.
func TestDecisionOfSuspendedRun(t *testing.T) {
	to := "pay"
	bot := func(s shop, names ...string) Def {
		d := Def{
			Name: "shop", Intents: Intents{},
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To(to), nil },
		}
		for _, name := range names {
			d.Intents[name] = Intent{Run: s.Refunds(orchestrator.OnceOptions[string]{}, nobodyDies)}
		}
		return d
	}
	for _, how := range []string{"the same", "renamed", "Route says otherwise", "renamed, and Migrate accepts"} {
		for word, c := range map[string]struct {
			answer ledger.Answer
			paid   int
		}{
			"landed":     {ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}, 1},
			"not landed": {ledger.Answer{By: "ann"}, 2},
			"skip":       {ledger.Answer{By: "ann", Skip: true}, 1},
		} {
			t.Run(how+", "+word, func(t *testing.T) {
				s := newShop()
				s.Vendor.Fail = []error{errTimeout}
				to = "pay"
				in := Input{RequestID: "1", Text: "shoes"}
				old := bot(s, "pay", "pay by bank")
				_, err := s.Start(t, old, Options{}).Execute(t.Context(), "s", in, nil)
				d := theDoubt(t, err, true)
				if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], c.answer); err != nil {
					t.Fatal(err)
				}
				now, drift := old, false
				switch how {
				case "renamed":
					to, now, drift = "refund", bot(s, "refund", "refund by bank"), true
				case "Route says otherwise":
					to = "pay by bank"
				case "renamed, and Migrate accepts":
					to, now, drift = "refund", bot(s, "refund", "refund by bank"), true
					now.Version, now.Migrate = "2", orchestrator.Lenient[State]
				}
				_, err = s.Start(t, now, Options{}).Execute(t.Context(), "s", in, nil)
				if _, is := errors.AsType[*orchestrator.DriftError](err); is != drift {
					t.Errorf("got %v, want drift: %t", err, drift)
				}
				if drift {
					to = "pay"
					_, err = s.Start(t, old, Options{}).Execute(t.Context(), "s", in, nil)
				}
				if skipped := errors.Is(err, ledger.ErrSkipped); skipped != (word == "skip") || err != nil && !skipped {
					t.Errorf("after the answer: %v", err)
				}
				if n := s.Vendor.Count(); n != c.paid {
					t.Errorf("paid %d times, want %d", n, c.paid)
				}
				if all := s.Effects(t, ledger.Query{}); len(all) != 1 {
					t.Errorf("%d effects: %+v", len(all), all)
				}
			})
		}
	}
}

// What Route does to the state is saved with its decision: a resume does not ask Route again.
func TestDecisionKeepsStateOfRoute(t *testing.T) {
	for name, next := range map[string]Next{
		"one intent": orchestrator.To("pay"), "a fan-out": orchestrator.To("pay", "other"),
		"items": orchestrator.ForEach("pay", "shoes"),
	} {
		for _, before := range []string{"", "an earlier turn"} {
			t.Run(name+before, func(t *testing.T) {
				s := newShop()
				s.Vendor.Honours = true
				asked := 0
				d := func(after func()) Def {
					return Def{Name: "shop", Intents: Intents{
						"pay":   {Run: s.Refunds(orchestrator.OnceOptions[string]{Class: ledger.Idempotent}, after)},
						"other": {Run: func(context.Context, *Turn) error { return nil }},
					}, Route: func(_ context.Context, t *Turn) (Next, error) {
						asked++
						t.State.Said = append(t.State.Said, "routed")
						return next, nil
					}}
				}
				if before != "" {
					execute(t, s.Start(t, d(nobodyDies), Options{}), Input{Text: "boots"})
				}
				asked = 0
				s.Crash(t, d, Input{RequestID: "r", Text: "shoes"})
				res := execute(t, s.Start(t, d(nobodyDies), Options{}), Input{RequestID: "r", Text: "shoes"})
				want := []string{"routed"}
				if before != "" {
					want = append(want, "routed")
				}
				wantSaid(t, res.State, want...)
				if asked != 1 {
					t.Errorf("Route was asked %d times", asked)
				}
			})
		}
	}
}

// If the decision cannot be saved, the effect is not issued, and the run stays in flight. Nothing runs after that, even
// if the function keeps the error to itself.
func TestDecisionNotSaved(t *testing.T) {
	for _, once := range []string{"Once", "EffectOf"} {
		t.Run(once, func(t *testing.T) {
			s := newShop()
			away := true
			bare := s.Snapshots
			s.Snapshots = faulttest.Snapshots(bare, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					if away {
						return fmt.Errorf("%w: away", snapshot.ErrRefused)
					}
					return next(ctx)
				}, "Save"))
			ran := false
			d := Def{Name: "shop", Iterate: true, Intents: Intents{
				"a": {Run: func(ctx context.Context, t *Turn) error {
					if once == "Once" {
						_, _ = s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
					} else {
						_, _ = orchestrator.EffectOf(t, "pay", &orchestrator.OnceOptions[string]{})
					}
					return nil
				}, Next: orchestrator.To("b")},
				"b": {Run: func(context.Context, *Turn) error { ran = true; return nil }, Next: orchestrator.End},
			}, Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a"), nil }}
			bot := s.Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 50e6}})
			_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate, snapshot.ErrRefused)
			if ran || s.Vendor.Count() > 0 || len(s.Effects(t, ledger.Query{})) > 0 {
				t.Errorf("went on: %t, paid %d, effects %+v", ran, s.Vendor.Count(), s.Effects(t, ledger.Query{}))
			}
			away = false
			execute(t, bot, Input{RequestID: "r"})
			if n := s.Vendor.Count(); once == "Once" && n != 1 {
				t.Errorf("paid %d times", n)
			}
		})
	}
}

// Abandon ends such a run, and a process whose code asks finishes it with Force.
func TestUnaskedOtherwise(t *testing.T) {
	for _, how := range []string{"abandoned", "asked", "AbandonFirst"} {
		s := newShop()
		o := orchestrator.OnceOptions[string]{}
		asks := func(after func()) Def { return single(s.Refunds(o, after)) }
		s.Crash(t, asks, Input{Text: "shoes"})
		var logs bytes.Buffer
		silent := s.Start(t, single(say("nothing")), Options{
			OnInterrupted: orchestrator.AbandonFirst, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		})
		_, err := silent.Resume(t.Context(), "s", nil)
		d := theDoubt(t, err, true)
		landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
		if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
			t.Fatal(err)
		}
		_, err = silent.Resume(t.Context(), "s", nil)
		wantDoubt(t, err, true)
		if n := strings.Count(logs.String(), "Resume with Force"); n != 1 { // before the answer it does not help
			t.Errorf("%d lines name Force: %s", n, &logs)
		}
		switch how {
		case "abandoned":
			if err := abandon(t, silent, "s"); err != nil {
				t.Fatal(err)
			}
			execute(t, silent, Input{})
		case "asked":
			bot := s.Start(t, asks(nobodyDies), Options{})
			_, err := bot.Resume(t.Context(), "s", nil)
			wantErr(t, err, orchestrator.ErrSuspended) // it does not know what the code would do
			res, err := bot.Resume(t.Context(), "s", &orchestrator.CallOptions{Force: true})
			if err != nil || res.State.A != "by hand" {
				t.Errorf("%v, %+v", err, res)
			}
		default:
			_, err := silent.Execute(t.Context(), "s", Input{}, nil)
			wantErr(t, err, orchestrator.ErrSuspended)
		}
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("%s: paid %d times", how, n)
		}
	}
}

// These effects need nobody who asks for them: one that is done, one that certainly did not happen, one of an iteration
// that is saved, and one whose doubt the function has kept to itself.
func TestUnaskedNeedNot(t *testing.T) {
	idempotent := orchestrator.OnceOptions[string]{Class: ledger.Idempotent}
	keeps := func(s shop) func(ctx context.Context, t *Turn) error {
		return func(ctx context.Context, t *Turn) error {
			_, _ = s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
			t.State.A = "kept"
			return nil
		}
	}
	dies := func(die func()) Intent {
		return Intent{Run: func(context.Context, *Turn) error { die(); return nil }, Next: orchestrator.End}
	}
	for name, c := range map[string]struct {
		fail     []error
		old, now func(s shop, die func()) Def
	}{
		"completed": {
			old: func(s shop, die func()) Def {
				return single(func(ctx context.Context, t *Turn) error {
					_, err := s.Vendor.Once(ctx, t, "shoes", idempotent)
					die()
					return err
				})
			},
			now: func(shop, func()) Def { return single(say("nothing")) },
		},
		"failed": {
			fail: []error{ledger.NotDone(errDeclined)},
			old: func(s shop, die func()) Def {
				return single(func(ctx context.Context, t *Turn) error {
					_, _ = s.Vendor.Once(ctx, t, "shoes", idempotent)
					die()
					return nil
				})
			},
			now: func(shop, func()) Def { return single(say("nothing")) },
		},
		"of an iteration that is saved": {
			fail: []error{errTimeout},
			old: func(s shop, die func()) Def {
				return Def{Name: "shop", Iterate: true, First: "keeps", Intents: Intents{
					"keeps": {Run: keeps(s), Next: orchestrator.To("dies")}, "dies": dies(die),
				}}
			},
			now: func(s shop, _ func()) Def {
				return Def{Name: "shop", Iterate: true, First: "keeps", Intents: Intents{
					"keeps": {Run: keeps(s), Next: orchestrator.To("dies")}, "dies": dies(nobodyDies),
				}}
			},
		},
		"kept again": {
			fail: []error{errTimeout},
			old: func(s shop, die func()) Def {
				return single(func(ctx context.Context, t *Turn) error {
					err := keeps(s)(ctx, t)
					die()
					return err
				})
			},
			now: func(s shop, _ func()) Def { return single(keeps(s)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			s.Vendor.Fail = c.fail
			s.Crash(t, func(die func()) Def { return c.old(s, die) }, Input{RequestID: "r"})
			execute(t, s.Start(t, c.now(s, nobodyDies), Options{}), Input{RequestID: "r"})
		})
	}
}

// A branch that is saved has asked for its effects, and does not ask again.
func TestUnaskedOfSavedBranch(t *testing.T) {
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprintf("answered %t", answered), func(t *testing.T) {
			s := newShop()
			s.Vendor.Fail = []error{errTimeout}
			saved := make(chan struct{}, 100)
			s.Snapshots = faulttest.Snapshots(s.Snapshots, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					defer func() { saved <- struct{}{} }()
					return next(ctx)
				}, "Save"))
			d := func(die func(), keep bool) Def {
				return Def{Name: "shop", Route: func(context.Context, *Turn) (Next, error) {
					return orchestrator.ForEach("pay", "shoes", "boots"), nil
				}, Intents: Intents{"pay": {Run: func(ctx context.Context, t *Turn) error {
					if t.ItemNumber == 2 {
						die()
						return errAway
					}
					_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
					if keep {
						err = nil
					}
					t.State.A = "paid"
					return err
				}}}}
			}
			one := Options{Limits: orchestrator.Limits{FanOut: 1}}
			in := Input{RequestID: "r"}
			if answered { // the first branch waits, is answered, and is saved; then the process dies
				bot := s.Start(t, d(nobodyDies, false), one)
				_, err := bot.Execute(t.Context(), "s", in, nil)
				doubt := theDoubt(t, err, true)
				landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
				if err := ledger.Resolve(t.Context(), s.Ledger, doubt.Effects[0], landed); err != nil {
					t.Fatal(err)
				}
			}
			for len(saved) > 0 {
				<-saved
			}
			g := &grave{World: s.World}
			ends := g.Ends()
			bot, err := orchestrator.New(d(g.Die, !answered), ends.Checkpoints, &Options{
				Snapshots: ends.Snapshots, Ledger: s.Ledger, Logger: quiet(), Limits: one.Limits,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
				t.Fatal("the process did not die")
			}
			if len(saved) == 0 {
				t.Fatal("no branch was saved")
			}
			s.FreeUp(t, "shop")
			now := d(nobodyDies, true)
			now.Intents["pay"] = Intent{Run: func(_ context.Context, t *Turn) error {
				t.State.B += fmt.Sprint(t.ItemNumber)
				return nil
			}}
			if res := execute(t, s.Start(t, now, one), in); res.State.A != "paid" || res.State.B != "2" {
				t.Errorf("the first branch ran again: %+v", res.State)
			}
		})
	}
}

// Route has asked for an effect that a person has answered for, and its decision is saved. Route is not asked again,
// and nobody has to ask for the effect.
func TestUnaskedOfRoute(t *testing.T) {
	for name, next := range map[string]Next{
		"one intent": orchestrator.To("pay"), "a branch that is saved": orchestrator.ForEach("work", 1, 2),
		"items": orchestrator.ForEach("pay", "shoes"),
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			s.Vendor.Honours, s.Vendor.Fail = true, []error{errTimeout}
			d := func(die func()) Def {
				return Def{Name: "shop", Intents: Intents{
					"pay": {Run: s.Refunds(orchestrator.OnceOptions[string]{Class: ledger.Idempotent}, die)},
					"work": {Run: func(ctx context.Context, t *Turn) error {
						if t.ItemNumber == 1 {
							t.State.A = "done"
							return nil
						}
						die()
						return nil
					}},
				}, Route: func(ctx context.Context, t *Turn) (Next, error) {
					_, err := s.Vendor.Once(ctx, t, "a look at the account", orchestrator.OnceOptions[string]{})
					return next, err
				}}
			}
			in := Input{RequestID: "r", Text: "shoes"}
			o := Options{Limits: orchestrator.Limits{FanOut: 1}}
			_, err := s.Start(t, d(nobodyDies), o).Execute(t.Context(), "s", in, nil)
			doubt := theDoubt(t, err, true)
			landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
			if err := ledger.Resolve(t.Context(), s.Ledger, doubt.Effects[0], landed); err != nil {
				t.Fatal(err)
			}
			g := &grave{World: s.World}
			ends := g.Ends()
			l := faulttest.Ledger(s.Ledger, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					if g.Dead.Load() {
						return lock.ErrFenced
					}
					return next(ctx)
				}, "Finish"))
			bot, err := orchestrator.New(d(g.Die), ends.Checkpoints, &Options{
				Snapshots: ends.Snapshots, Ledger: l, Logger: quiet(), Limits: o.Limits,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bot.Execute(t.Context(), "s", in, nil); err == nil {
				t.Fatal("the process did not die")
			}
			s.FreeUp(t, "shop")
			execute(t, s.Start(t, d(nobodyDies), o), in)
		})
	}
}

// An effect of the run is damaged. It may have happened, so the code has to ask for it as for one that is open.
func TestUnaskedDamaged(t *testing.T) {
	s := newShop()
	s.Crash(t, func(die func()) Def {
		return single(func(context.Context, *Turn) error { die(); return nil })
	}, Input{RequestID: "r"})
	bot := s.Start(t, single(say("nothing")), Options{Ledger: badList{s.Ledger, false}})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	if d := theDoubt(t, err, true); !slices.Equal(d.Effects, []string{"x"}) {
		t.Errorf("in doubt: %q", d.Effects)
	}
}

// A tool that calls for the session of its own caller never begins, in a run that was taken over either.
func TestReentrantToolFails(t *testing.T) {
	s := newShop()
	var bot *Bot
	d := func(die func()) Def {
		return single(func(ctx context.Context, t *Turn) error {
			die()
			own := func(context.Context) (string, error) { return t.Session, nil }
			_, err := bot.Tool("again", "", nil, own).Call(ctx, "1", []byte(`{"input":"x"}`))
			return err
		})
	}
	bot = s.Start(t, d(nobodyDies), Options{})
	s.Crash(t, d, Input{RequestID: "r"})
	_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
	if wantErr(t, err, orchestrator.ErrReentrant); !definite(err) {
		t.Errorf("not told as failed: %v", err)
	}
}
