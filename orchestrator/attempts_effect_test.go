package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// definite reports whether a turn was told as failed.
func definite(err error) bool {
	return err != nil && !errors.Is(err, orchestrator.ErrIndeterminate) && !errors.Is(err, orchestrator.ErrSuspended)
}

// Attempt 1 pays, and its answer is lost. Attempt 2 certainly did nothing: it was refused, or came too late. The effect
// has not failed for that, and the turn is not told as failed. If no attempt may have happened, it is.
func TestFailedNeedsEachAttempt(t *testing.T) {
	refused := ledger.NotDone(errors.New("connection refused"))
	for name, c := range map[string]struct {
		class ledger.Class
		fail  []error // of the attempts; nil pays and answers, errTimeout pays
		kill  bool
		state ledger.State
	}{
		"retried":                  {ledger.Idempotent, []error{errTimeout, refused}, false, ledger.Unknown},
		"killed":                   {ledger.Idempotent, []error{errTimeout, refused}, true, ledger.Unknown},
		"refused twice":            {ledger.Idempotent, []error{refused, refused}, false, ledger.Failed},
		"refused, ask":             {ledger.Ask, []error{refused, refused}, false, ledger.Failed},
		"in doubt, between others": {ledger.Idempotent, []error{refused, errTimeout, refused}, false, ledger.Unknown},
		"not landed, says Verify":  {ledger.Verifiable, []error{errAway, refused}, false, ledger.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			s.Vendor.Honours = true
			calls := 0
			pay := func(die func()) func(ctx context.Context, t *Turn) error {
				return func(ctx context.Context, t *Turn) error {
					_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
						calls++
						if calls > len(c.fail) {
							return s.Vendor.Pay(key, "shoes")
						}
						err := c.fail[calls-1]
						if errors.Is(err, errTimeout) {
							_, _ = s.Vendor.Pay(key, "shoes")
						}
						if calls == 1 {
							die()
						}
						return "", err
					}, &orchestrator.OnceOptions[string]{
						Class: c.class, Verify: s.Vendor.Find, Settles: time.Nanosecond,
					})
					return err
				}
			}
			d := func(die func()) Def {
				return Def{
					Name:    "shop",
					Intents: Intents{"pay": {Run: pay(die), Retry: retry.Policy{Attempts: len(c.fail)}}},
				}
			}
			in := Input{RequestID: "r", Text: "shoes"}
			if c.kill {
				s.Crash(t, func(die func()) Def {
					d := d(die)
					d.Intents["pay"] = Intent{Run: d.Intents["pay"].Run}
					return d
				}, in)
			}
			after := d(nobodyDies)
			if c.kill {
				after.Intents["pay"] = Intent{Run: after.Intents["pay"].Run}
			}
			bot := s.Start(t, after, Options{})
			_, err := bot.Execute(t.Context(), "s", in, nil)
			if e := s.Effect(t); e.State != c.state {
				t.Errorf("the effect is %s, want %s", e.State, c.state)
			}
			if failed := c.state == ledger.Failed; definite(err) != failed {
				t.Errorf("told as failed: %t, want %t: %v", definite(err), failed, err)
			}
			if c.state == ledger.Failed {
				return
			}
			wantDoubt(t, err, false)
			execute(t, bot, in) // the vendor recognizes the key
			if n := s.Vendor.Count(); n != 1 {
				t.Errorf("paid %d times", n)
			}
		})
	}
}

// Attempt 1 may have paid, and attempt 2 comes too late: the ledger was slow. The engine notes that attempt 2 was not
// begun, which says nothing of attempt 1. A first attempt that was not begun has failed.
func TestNotBegun(t *testing.T) {
	for _, slow := range []int{1, 2} {
		t.Run(fmt.Sprintf("attempt %d", slow), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				issues := 0
				l := faulttest.Ledger(s.Ledger, faulttest.On(
					func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
						err := next(ctx)
						if issued := s.Effects(t, ledger.Query{})[0].Attempts; issued == slow && issues < slow {
							issues = issued
							time.Sleep(time.Second)
						}
						return err
					}, "Issue"))
				calls := 0
				bot := s.Start(t, Def{Name: "shop", Intents: Intents{"pay": {
					Timeout: 500 * time.Millisecond, Retry: retry.Policy{Attempts: slow},
					Run: func(ctx context.Context, t *Turn) error {
						_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
							calls++
							_, _ = s.Vendor.Pay(key, "shoes")
							return "", errTimeout
						}, &orchestrator.OnceOptions[string]{Class: ledger.Idempotent})
						return err
					},
				}}}, Options{Ledger: l})
				_, err := bot.Execute(t.Context(), "s", Input{}, nil)
				if calls != slow-1 {
					t.Errorf("%d calls of the vendor, want %d: the context had ended", calls, slow-1)
				}
				if definite(err) != (slow == 1) {
					t.Errorf("told as failed: %v", err)
				}
			})
		})
	}
}

// The late result of attempt 1 comes while attempt 2 is at work, and attempt 2 brings none, or another one. Once
// returns what the ledger has.
func TestLateResultCounts(t *testing.T) {
	for name, second := range map[string]error{
		"another result": nil, "not done": ledger.NotDone(errAway), "timeout": errTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			calls := 0
			bot := s.Start(t, Def{Name: "shop", Intents: Intents{"pay": {
				Retry: retry.Policy{Attempts: 2},
				Run: func(ctx context.Context, turn *Turn) (err error) {
					turn.State.A, err = orchestrator.Once(
						ctx,
						turn,
						"pay",
						func(_ context.Context, key string) (string, error) {
							if calls++; calls == 1 {
								return "", errTimeout
							}
							late := ledger.Outcome{State: ledger.Completed, Result: []byte(`"the first"`)}
							if _, err := s.Ledger.Finish(ctx, key, 1, late); err != nil {
								t.Error(err)
							}
							return "the second", second
						},
						&orchestrator.OnceOptions[string]{Class: ledger.Idempotent},
					)
					return err
				},
			}}}, Options{})
			if res := execute(t, bot, Input{}); res.State.A != "the first" || calls != 2 {
				t.Errorf("got %q after %d calls", res.State.A, calls)
			}
		})
	}
}

// The vendor takes longer than the intent's Timeout. Verify asks before it has paid. "Not landed" counts only when the
// last attempt is older than Settles, by default as old as it has run and ten seconds more. Until then the turn waits,
// without counting attempts.
func TestSettles(t *testing.T) {
	for name, c := range map[string]struct {
		takes, settles time.Duration // of the vendor
		lands          bool
		killed         bool
		waits          time.Duration // from the first call
	}{
		"lands meanwhile":             {takes: 80 * time.Millisecond, lands: true, waits: 10 * time.Second},
		"lands late":                  {takes: time.Minute, settles: 90 * time.Second, lands: true, waits: time.Minute},
		"does not land":               {settles: 40 * time.Second, waits: 40 * time.Second},
		"does not land, by default":   {waits: 10*time.Second + 50*time.Millisecond},
		"the process was killed":      {killed: true, waits: 14 * time.Second},
		"killed, and Settles is long": {killed: true, settles: 10 * time.Minute, waits: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				var calls int
				var asked []time.Duration
				began := time.Now()
				d := func(die func()) Def {
					return Def{Name: "shop", Intents: Intents{"pay": {
						Timeout: 50 * time.Millisecond,
						Run: func(ctx context.Context, turn *Turn) (err error) {
							turn.State.A, err = orchestrator.Once(
								ctx,
								turn,
								"pay",
								func(ctx context.Context, key string) (string, error) {
									if calls++; calls > 1 {
										return s.Vendor.Pay(key, "again")
									}
									if c.lands {
										var wg sync.WaitGroup
										t.Cleanup(wg.Wait)
										wg.Go(func() { time.Sleep(c.takes); _, _ = s.Vendor.Pay(key, "shoes") })
									}
									if c.killed {
										die()
										return "", errDead
									}
									<-ctx.Done()
									return "", ctx.Err()
								},
								&orchestrator.OnceOptions[string]{
									Class: ledger.Verifiable, Settles: c.settles,
									Verify: func(ctx context.Context, key string) (string, bool, error) {
										asked = append(asked, time.Since(began))
										return s.Vendor.Find(ctx, key)
									},
								},
							)
							return err
						},
					}}}
				}
				in := Input{RequestID: "r"}
				if c.killed {
					s.Crash(t, d, in)
					time.Sleep(4 * time.Second) // until it looks dead
				}
				bot := s.Start(t, d(nobodyDies), Options{})
				_, err := bot.Execute(t.Context(), "s", in, nil)
				wantDoubt(t, err, false)
				for range 200 {
					run := wantRuns(t, bot, 1)[0]
					if run.Status != snapshot.Waiting || run.Attempt > 1 || run.Pause <= 0 {
						t.Fatalf("the run is %s after %d attempts, for %v", run.Status, run.Attempt, run.Pause)
					}
					time.Sleep(run.Pause)
					if outcome, err := bot.Recover(t.Context(), "s"); outcome == "settled" {
						break
					} else if !errors.Is(err, ledger.ErrInDoubt) {
						t.Fatalf("%s: %v", outcome, err)
					}
				}
				wantRuns(t, bot, 0)
				if n := s.Vendor.Count(); n != 1 {
					t.Errorf("paid %d times: %q", n, s.Vendor.Paid)
				}
				if took := time.Since(began); took < c.waits || took > c.waits*3/2+time.Second {
					t.Errorf("it took %v, want %v; asked at %v", took, c.waits, asked)
				}
				if len(asked) > 15 {
					t.Errorf("asked %d times: %v", len(asked), asked)
				}
			})
		})
	}
}
