package orchestrator_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A body is the Run of an intent.
type body = func(context.Context, *Turn) error

// aOrB are two intents that pay.
func aOrB(pays body) Intents { return Intents{"a": {Run: pays}, "b": {Run: pays}} }

func toA(context.Context, *Turn) (Next, error) { return orchestrator.To("a"), nil }

// A process dies after it has paid, and before that is recorded. The vendor recognizes keys. The next process may not
// pay under another key, whatever it would decide: it pays under the same one, or it leaves the run to another process.
func TestDecisionOfAnotherDeploy(t *testing.T) {
	idempotent := orchestrator.OnceOptions[string]{Class: ledger.Idempotent}
	to := func(next Next) func(context.Context, *Turn) (Next, error) {
		return func(context.Context, *Turn) (Next, error) { return next, nil }
	}
	for name, c := range map[string]struct {
		old, now func(pays body) Def
		drift    bool
	}{
		"another First": {
			old: func(pays body) Def {
				return Def{Name: "shop", First: "a", Intents: aOrB(pays)}
			},
			now: func(pays body) Def {
				return Def{Name: "shop", First: "b", Intents: aOrB(pays)}
			},
		},
		"First is renamed": {
			old: func(pays body) Def {
				return Def{Name: "shop", First: "a", Intents: Intents{"a": {Run: pays}}}
			},
			now: func(pays body) Def {
				return Def{Name: "shop", First: "b", Intents: Intents{"b": {Run: pays}}}
			},
			drift: true,
		},
		"the only intent is renamed, and Migrate accepts": {
			old: func(pays body) Def {
				return Def{Name: "shop", Intents: Intents{"a": {Run: pays}}}
			},
			now: func(pays body) Def {
				return Def{
					Name: "shop", Version: "2", Migrate: orchestrator.Lenient[State],
					Intents: Intents{"b": {Run: pays}},
				}
			},
			drift: true,
		},
		"Route says otherwise": {
			old: func(pays body) Def {
				return Def{Name: "shop", Route: to(orchestrator.To("a")), Intents: aOrB(pays)}
			},
			now: func(pays body) Def {
				return Def{Name: "shop", Route: to(orchestrator.To("b")), Intents: aOrB(pays)}
			},
		},
		"Route says otherwise, in a fan-out": {
			old: func(pays body) Def {
				return Def{
					Name: "shop", Route: to(orchestrator.To("a", "c")),
					Intents: Intents{"a": {Run: pays}, "b": {Run: pays}, "c": {Run: say("c")}},
				}
			},
			now: func(pays body) Def {
				return Def{
					Name: "shop", Route: to(orchestrator.To("b", "c")),
					Intents: Intents{"a": {Run: pays}, "b": {Run: pays}, "c": {Run: say("c")}},
				}
			},
		},
		"Route says other items": {
			old: func(pays body) Def {
				items := orchestrator.ForEach("a", "one")
				return Def{Name: "shop", Route: to(items), Intents: Intents{"a": {Run: pays}}}
			},
			now: func(pays body) Def {
				items := orchestrator.ForEach("a", "two", "one")
				return Def{Name: "shop", Route: to(items), Intents: Intents{"a": {Run: pays}}}
			},
		},
		"no First any more, in the second iteration": {
			old: func(pays body) Def {
				return Def{
					Name: "shop", Iterate: true, First: "c", Route: to(orchestrator.To("a")),
					Intents: Intents{"a": {Run: pays, Next: orchestrator.End}, "b": {Run: pays}, "c": {Run: say("c")}},
				}
			},
			now: func(pays body) Def {
				return Def{
					Name: "shop", Iterate: true, Route: to(orchestrator.To("b")),
					Intents: Intents{
						"a": {Run: pays, Next: orchestrator.End}, "b": {Run: pays, Next: orchestrator.End},
						"c": {Run: say("c")},
					},
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			backends(t, func(t *testing.T, w world) {
				s := shop{World: w, Ledger: new(ledger.Memory), Vendor: &vendor{Honours: true}}
				in := Input{RequestID: "r", Text: "shoes"}
				s.Crash(t, func(die func()) Def { return c.old(s.Refunds(idempotent, die)) }, in)
				bot := s.Start(t, c.now(s.Refunds(idempotent, nobodyDies)), Options{})
				_, err := bot.Execute(t.Context(), "s", in, nil)
				if _, drift := errors.AsType[*orchestrator.DriftError](err); drift != c.drift || err != nil && !drift {
					t.Errorf("got %v, want drift: %t", err, c.drift)
				}
				if c.drift { // an old process finishes it
					execute(t, s.Start(t, c.old(s.Refunds(idempotent, nobodyDies)), Options{}), in)
				}
				if n := s.Vendor.Count(); n != 1 {
					t.Errorf("one input, a vendor that recognizes keys: paid %d times", n)
				}
				if open := s.Effects(t, ledger.Query{Open: true}); len(open) > 0 {
					t.Errorf("settled, and open: %+v", open)
				}
			})
		})
	}
}

// A decision costs a save only if it was not saved already, and only if an effect is issued under it.
func TestDecisionCosts(t *testing.T) {
	idempotent := orchestrator.OnceOptions[string]{Class: ledger.Idempotent}
	for name, c := range map[string]struct {
		d     func(s shop, saves func() int) Def
		saves int
	}{
		"no effect": {func(shop, func() int) Def {
			return Def{
				Name: "shop", Intents: Intents{"a": {Run: say("a")}, "b": {Run: say("b")}},
				Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a", "b"), nil },
				Merge: func(base State, _ []State) (State, error) { return base, nil },
			}
		}, 1}, // of the first of two branches
		"First": {func(s shop, _ func() int) Def {
			return Def{Name: "shop", First: "a", Intents: aOrB(s.Refunds(idempotent, nobodyDies))}
		}, 0},
		"a single intent": {func(s shop, _ func() int) Def { return single(s.Refunds(idempotent, nobodyDies)) }, 0},
		"Route, and no effect": {func(shop, func() int) Def {
			return Def{
				Name: "shop", Intents: Intents{"a": {Run: say("a")}},
				Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("a"), nil },
			}
		}, 0},
		"Route, and two effects": {func(s shop, _ func() int) Def {
			return Def{
				Name: "shop", Route: toA,
				Intents: Intents{"a": {Run: func(ctx context.Context, t *Turn) error {
					for _, what := range []string{"shoes", "boots"} {
						o := orchestrator.OnceOptions[string]{Each: what}
						if _, err := s.Vendor.Once(ctx, t, what, o); err != nil {
							return err
						}
					}
					return nil
				}}},
			}
		}, 1},
		"Route, and a Pure effect": {func(s shop, _ func() int) Def {
			return Def{
				Name: "shop", Route: toA,
				Intents: aOrB(s.Refunds(orchestrator.OnceOptions[string]{Class: ledger.Pure}, nobodyDies)),
			}
		}, 0},
		"Next": {func(s shop, _ func() int) Def {
			return Def{Name: "shop", Iterate: true, First: "a", Intents: Intents{
				"a": {Run: say("a"), Next: orchestrator.To("b")},
				"b": {Run: s.Refunds(idempotent, nobodyDies), Next: orchestrator.End},
			}}
		}, 1}, // of the iteration
		"a single intent, twice": {func(s shop, _ func() int) Def {
			return Def{
				Name: "shop", Iterate: true, Intents: Intents{"a": {Run: s.Refunds(idempotent, nobodyDies)}},
				Evaluate: func(_ context.Context, t *Turn) (Next, error) {
					if t.Iteration == 1 {
						return orchestrator.End, nil
					}
					return Next{}, nil
				},
			}
		}, 1}, // of the iteration
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			var mu sync.Mutex
			saves := 0
			s.Snapshots = faulttest.Snapshots(s.Snapshots, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					mu.Lock()
					defer mu.Unlock()
					saves++
					return next(ctx)
				}, "Save"))
			count := func() int {
				mu.Lock()
				defer mu.Unlock()
				return saves
			}
			execute(t, s.Start(t, c.d(s, count), Options{}), Input{Text: "shoes"})
			if n := count(); n != c.saves {
				t.Errorf("%d saves, want %d", n, c.saves)
			}
		})
	}
}

// The code of now does not ask for an effect that an earlier attempt has left. The turn does not settle over it, until
// a person has waved it through, or the code asks.
func TestUnasked(t *testing.T) {
	for name, class := range map[string]ledger.Class{"ask": ledger.Ask, "idempotent": ledger.Idempotent} {
		t.Run(name, func(t *testing.T) {
			backends(t, func(t *testing.T, w world) {
				s := shop{World: w, Ledger: new(ledger.Memory), Vendor: &vendor{Honours: true}}
				o := orchestrator.OnceOptions[string]{Class: class}
				s.Crash(
					t,
					func(die func()) Def { return single(s.Refunds(o, die)) },
					Input{RequestID: "r", Text: "shoes"},
				)
				silent := s.Start(t, single(say("nothing to refund")), Options{})
				in := Input{RequestID: "r", Text: "shoes"}
				_, err := silent.Execute(t.Context(), "s", in, nil)
				d := theDoubt(t, err, true)
				if id := s.Effect(t).ID; !slices.Equal(d.Effects, []string{id}) {
					t.Errorf("names %q, want %q", d.Effects, id)
				}
				if due := recoverable(t, silent, true); len(due) > 0 {
					t.Errorf("due before the answer: %q", due)
				}
				landed := ledger.Answer{By: "ann", Landed: true, Result: []byte(`"by hand"`)}
				if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], landed); err != nil {
					t.Fatal(err)
				}
				for range 3 { // the answer does not help: the code does not ask
					outcome, err := silent.Recover(t.Context(), "s")
					if outcome != "suspended" || err != nil {
						t.Fatalf("after the answer: %s, %v", outcome, err)
					}
					if due := recoverable(t, silent, true); len(due) > 0 {
						t.Errorf("due again: %q", due)
					}
				}
				_, err = silent.Resume(t.Context(), "s", nil)
				wantDoubt(t, err, true)
				_, err = silent.Execute(t.Context(), "s", Input{Text: "another"}, nil)
				wantErr(t, err, orchestrator.ErrSuspended)
				if run := wantRuns(t, silent, 1)[0]; run.Status != snapshot.Suspended || run.Attempt > 1 {
					t.Errorf("run %s, attempt %d", run.Status, run.Attempt)
				}
				res, err := silent.Resume(t.Context(), "s", &orchestrator.CallOptions{Force: true})
				if err != nil {
					t.Fatal(err)
				}
				wantSaid(t, res.State, "nothing to refund")
				if n := s.Vendor.Count(); n != 1 {
					t.Errorf("paid %d times", n)
				}
			})
		})
	}
}
