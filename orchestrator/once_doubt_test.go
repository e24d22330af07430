package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// dies returns a bot whose process dies while it pays for the text of the input.
func diesPaying(s shop, o orchestrator.OnceOptions[string]) func(die func()) Def {
	return func(die func()) Def {
		return single(func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
				defer die()
				return s.Vendor.Pay(key, t.Input.Text)
			}, &o)
			return err
		})
	}
}

// resumeAndDie resumes the run of s in a process that dies on the way, and frees its session.
func resumeAndDie(t *testing.T, s shop, d func(die func()) Def, c *orchestrator.CallOptions) {
	t.Helper()
	g := &grave{World: s.World}
	ends := g.Ends()
	l := faulttest.Ledger(s.Ledger, faulttest.On(
		func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
			if g.Dead.Load() {
				return lock.ErrFenced
			}
			return next(ctx)
		}, "Finish"))
	bot, err := orchestrator.New(d(g.Die), ends.Checkpoints,
		&Options{Snapshots: ends.Snapshots, Ledger: l, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Resume(t.Context(), "s", c); err == nil {
		t.Fatal("the process did not die")
	}
	s.FreeUp(t, bot.Name())
}

// A turn is not told as failed while an effect of it is in doubt, although its function returns something else.
func TestDoubtWinsOverFailure(t *testing.T) {
	for _, class := range []ledger.Class{ledger.Ask, ledger.Idempotent} {
		o := orchestrator.OnceOptions[string]{Class: class}
		for name, run := range map[string]func(s shop, attempt int, ctx context.Context, t *Turn) error{
			"another attempt fails before it comes to Once": func(s shop, attempt int, ctx context.Context, t *Turn) error {
				if attempt == 2 {
					return errAway
				}
				_, err := s.Vendor.Once(ctx, t, "shoes", o)
				if class == ledger.Ask {
					err = errAway
				}
				return err
			},
			"a loop returns its last error": func(s shop, _ int, ctx context.Context, t *Turn) (err error) {
				for range 2 {
					_, err = s.Vendor.Once(ctx, t, "shoes", o)
				}
				return err
			},
			"the error is another": func(s shop, _ int, ctx context.Context, t *Turn) error {
				_, _ = s.Vendor.Once(ctx, t, "shoes", o)
				return errAway
			},
		} {
			t.Run(fmt.Sprintf("class %d, %s", class, name), func(t *testing.T) {
				s := newShop()
				s.Vendor.Honours, s.Vendor.Fail = true, []error{errTimeout}
				attempt := 0
				d := single(nil)
				d.Intents = Intents{"work": {
					Retry: retry.Policy{Attempts: 2},
					Run: func(ctx context.Context, t *Turn) error {
						attempt++
						return run(s, attempt, ctx, t)
					},
				}}
				_, err := s.Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
				if open := s.Effect(t).State.Open(); open != errors.Is(err, ledger.ErrInDoubt) {
					t.Errorf("the effect is open: %t, and the turn says: %v", open, err)
				}
			})
		}
	}
}

// The process dies while it pays. The run is resumed, and fails before it comes to the payment.
func TestResumeKeepsDoubt(t *testing.T) {
	for class, ask := range map[ledger.Class]bool{ledger.Ask: true, ledger.Idempotent: false} {
		s := newShop()
		s.Crash(t, diesPaying(s, orchestrator.OnceOptions[string]{Class: class}), Input{Text: "shoes"})
		bot := s.Start(t, single(func(context.Context, *Turn) error { return errAway }), Options{})
		_, err := bot.Resume(t.Context(), "s", nil)
		wantDoubt(t, err, ask)
		wantErr(t, err, errAway)
	}
}

// A run that was answered, or forced past parking, goes on in a process that dies. The drain finds it.
func TestAnsweredThenKilled(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, shop) *orchestrator.CallOptions{
		"answered": func(t *testing.T, s shop) *orchestrator.CallOptions {
			s.Crash(t, diesPaying(s, orchestrator.OnceOptions[string]{}), Input{Text: "shoes"})
			pays := single(pays(s, orchestrator.OnceOptions[string]{}))
			_, err := s.Start(t, pays, Options{}).Resume(t.Context(), "s", nil)
			d := theDoubt(t, err, true)
			if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], ledger.Answer{By: "ann"}); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		"forced": func(t *testing.T, s shop) *orchestrator.CallOptions {
			s.Crash(t, func(die func()) Def {
				return single(func(context.Context, *Turn) error { die(); return nil })
			}, Input{Text: "shoes"})
			fails := s.Start(t, single(func(context.Context, *Turn) error { return errAway }),
				Options{Limits: orchestrator.Limits{Attempts: 1}})
			if _, err := fails.Recover(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if run := wantRuns(t, fails, 1)[0]; run.Status != snapshot.Parked {
				t.Fatalf("the run is %s", run.Status)
			}
			return &orchestrator.CallOptions{Force: true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			c := prepare(t, s)
			resumeAndDie(t, s, diesPaying(s, orchestrator.OnceOptions[string]{}), c)
			bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{})
			if due := recoverable(t, bot, true); !slices.Equal(due, []string{"s"}) {
				t.Errorf("due: %q", due)
			}
			if outcome, err := bot.Recover(t.Context(), "s"); outcome != "suspended" || err != nil {
				t.Error(outcome, err)
			}
		})
	}
}

// A run waits for what a person is asked about, and for nothing else.
func TestAnsweredBesideAnother(t *testing.T) {
	s := newShop()
	away := true
	fails := func(name string, class ledger.Class) Intent {
		return Intent{Run: func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, name, func(context.Context, string) (int, error) {
				if away {
					return 0, errTimeout
				}
				return 1, nil
			}, &orchestrator.OnceOptions[int]{Class: class})
			return err
		}}
	}
	bot := s.Start(t, Def{
		Name: "shop", Intents: Intents{"ask": fails("pay", ledger.Ask), "mail": fails("mail", ledger.Idempotent)},
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("ask", "mail"), nil },
	}, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	d := theDoubt(t, err, true)
	if len(d.Effects) != 1 {
		t.Fatalf("waits for %q", d.Effects)
	}
	away = false
	answer := ledger.Answer{Landed: true, By: "ann"} // without a result
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], answer); err != nil {
		t.Fatal(err)
	}
	if due := recoverable(t, bot, true); !slices.Equal(due, []string{"s"}) {
		t.Errorf("due: %q", due)
	}
	if outcome, err := bot.Recover(t.Context(), "s"); outcome != "settled" || err != nil {
		t.Error(outcome, err)
	}
}

// Route names the items in another order after a crash. Each item gets its own receipt.
func TestItemsInAnotherOrder(t *testing.T) {
	s := newShop()
	s.Vendor.Honours = true
	bot := func(die func(), names ...string) Def {
		return Def{
			Name:  "shop",
			Route: func(context.Context, *Turn) (Next, error) { return orchestrator.ForEach("each", names...), nil },
			Intents: Intents{"each": {Run: func(ctx context.Context, t *Turn) error {
				who := orchestrator.Item[string](t)
				// The other item may be under way when the process dies.
				receipt, err := s.Vendor.Once(ctx, t, who, orchestrator.OnceOptions[string]{Class: ledger.Idempotent})
				if err == nil && !strings.HasSuffix(receipt, who) {
					err = fmt.Errorf("%s got: %s", who, receipt)
				}
				die()
				return err
			}}},
		}
	}
	s.Crash(t, func(die func()) Def { return bot(die, "alice", "bob") }, Input{})
	if _, err := s.Start(t, bot(func() {}, "bob", "alice"), Options{}).Resume(t.Context(), "s", nil); err != nil {
		t.Error(err)
	}
	if paid := slices.Sorted(slices.Values(s.Vendor.Paid)); !slices.Equal(paid, []string{"alice", "bob"}) {
		t.Errorf("paid %q", paid)
	}
}

// Once in the function of the same effect would wait for itself.
func TestOnceWithinItself(t *testing.T) {
	s := newShop()
	var inner error
	execute(t, s.Start(t, single(func(ctx context.Context, t *Turn) error {
		o := &orchestrator.OnceOptions[int]{Key: "k"}
		_, err := orchestrator.Once(ctx, t, "x", func(ctx context.Context, _ string) (int, error) {
			_, inner = orchestrator.Once(ctx, t, "x", func(context.Context, string) (int, error) { return 1, nil }, o)
			return 2, nil
		}, o)
		return err
	}), Options{}), Input{})
	wantErr(t, inner, ledger.ErrRepeated)
}

// An attempt runs out of time while the function of an earlier attempt is at work on the effect.
func TestTimedOutBehindItself(t *testing.T) {
	for _, class := range []ledger.Class{ledger.Ask, ledger.Idempotent} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop()
			goOn, done := make(chan struct{}), make(chan struct{})
			d := twice(func(ctx context.Context, t *Turn) error {
				go func() {
					_, _ = orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
						defer close(done)
						<-goOn // a client that knows no context
						return s.Vendor.Pay(key, "shoes")
					}, &orchestrator.OnceOptions[string]{Class: class})
				}()
				<-ctx.Done()
				return ctx.Err()
			})
			work := d.Intents["work"]
			work.Timeout = time.Second
			d.Intents["work"] = work
			_, err := s.Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
			wantDoubt(t, err, class == ledger.Ask)
			close(goOn)
			<-done
		})
	}
}

// What the function says reaches no log, and says nothing of this turn. What it calls held is not held.
func TestDoubtSaysNothingElse(t *testing.T) {
	for _, class := range []ledger.Class{ledger.Ask, ledger.Idempotent} {
		for _, said := range []error{
			errors.New("no money on 4111"), orchestrator.ErrParked, orchestrator.ErrSuspended, lock.ErrHeld,
		} {
			s := newShop()
			bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
				_, err := orchestrator.Once(ctx, t, "x",
					func(context.Context, string) (int, error) { return 0, fmt.Errorf("vendor: %w", said) },
					&orchestrator.OnceOptions[int]{Class: class})
				return err
			}), Options{})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			wantDoubt(t, err, class == ledger.Ask)
			if text := logtext.Of(err); strings.Contains(text, "vendor") {
				t.Errorf("a log says: %s", text)
			}
			if class == ledger.Ask {
				continue
			}
			if errors.Is(err, orchestrator.ErrParked) || errors.Is(err, orchestrator.ErrSuspended) {
				t.Errorf("the turn says what the vendor said: %v", err)
			}
			if _, err = bot.Resume(t.Context(), "s", nil); wantRuns(t, bot, 1)[0].Attempt != 2 {
				t.Errorf("attempt %d: %v", wantRuns(t, bot, 1)[0].Attempt, err)
			}
		}
	}
}

// A damaged effect, or a ledger that is away, keeps the drain from nothing else.
func TestDrainBesideDamagedEffect(t *testing.T) {
	for name, away := range map[string]bool{"damaged": false, "away": true} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			s.Vendor.Fail = []error{errTimeout}
			_, err := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{}).
				Execute(t.Context(), "suspended", Input{Text: "shoes"}, nil)
			wantDoubt(t, err, true)
			s.Crash(t, func(die func()) Def {
				return single(func(context.Context, *Turn) error { die(); return nil })
			}, Input{})
			bot := s.Start(t, single(func(context.Context, *Turn) error { return nil }),
				Options{Ledger: badList{s.Ledger, away}})
			var due []string
			var failed error
			for session, err := range bot.Recoverable(t.Context(), true) {
				if failed = err; err == nil {
					due = append(due, session)
				}
			}
			if !slices.Equal(due, []string{"s"}) || away != (failed != nil) {
				t.Errorf("due: %q, %v", due, failed)
			}
		})
	}
}

// A badList lists a damaged effect first, or fails.
type badList struct {
	ledger.Ledger
	away bool
}

func (l badList) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		if l.away {
			yield(ledger.Effect{}, errors.New("no route to host"))
			return
		}
		if yield(ledger.Effect{ID: "x"}, ledger.Damaged("x", errors.New("state \"x\""))) {
			l.Ledger.Effects(ctx, q)(yield)
		}
	}
}

// A goroutine that a turn has left behind names effects while its call goes on with the next turn.
func TestLeftBehindNamesNothing(t *testing.T) {
	s := newShop()
	s.Crash(t, func(die func()) Def {
		return single(func(context.Context, *Turn) error { die(); return nil })
	}, Input{Text: "first"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	late := 0
	bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		if t.Input.Text != "first" {
			return nil
		}
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					_, _ = orchestrator.Once(context.WithoutCancel(ctx), t, "x",
						func(context.Context, string) (int, error) { late++; return 1, nil }, nil)
				}
			}
		}()
		return nil
	}), Options{})
	execute(t, bot, Input{Text: "second"})
	close(stop)
	<-stopped
	if late > 1 {
		t.Errorf("%d effects", late)
	}
}

// A hook that changes the bytes that it is given changes what is kept, and not what the caller gets.
func TestRedactInPlace(t *testing.T) {
	s := newShop()
	res := execute(t, s.Start(t, single(func(ctx context.Context, t *Turn) error {
		said, err := orchestrator.Once(ctx, t, "x",
			func(context.Context, string) (string, error) { return "4111", nil }, nil)
		t.State.Said = append(t.State.Said, said)
		return err
	}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
		copy(e.Result, bytes.ReplaceAll(e.Result, []byte("4111"), []byte("****")))
		return e
	}}}), Input{})
	wantSaid(t, res.State, "4111")
	if e := s.Effect(t); !e.Redacted || string(e.Result) != `"****"` {
		t.Errorf("%+v", e)
	}
}

// An error of Tx that says in doubt leaves the turn in flight. So does a lost reply to the commit, if the intent says
// so.
func TestDoubtOfTx(t *testing.T) {
	for name, said := range map[string]func(e ledger.Effect) error{
		"Tx": func(ledger.Effect) error { return fmt.Errorf("booking: %w", ledger.ErrInDoubt) },
		"commit": func(e ledger.Effect) error {
			return &orchestrator.InDoubtError{RunID: e.RunID, Effects: []string{e.ID}, Err: errTimeout}
		},
	} {
		s := newShop()
		_, err := s.Start(t, single(func(_ context.Context, t *Turn) error {
			e, err := orchestrator.EffectOf[string](t, "book", nil)
			if err != nil {
				return err
			}
			return said(e)
		}), Options{}).Execute(t.Context(), "s", Input{}, nil)
		if !errors.Is(err, orchestrator.ErrIndeterminate) || !errors.Is(err, ledger.ErrInDoubt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A suspended run that cannot be read is told, and not passed over.
func TestDamagedSuspendedRun(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{})), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
	d := theDoubt(t, err, true)
	run := wantRuns(t, bot, 1)[0]
	run.Seq++
	run.Payload = []byte(`{"v":1}`)
	if err := s.Snapshots.Save(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], ledger.Answer{By: "ann"}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for session, err := range bot.Recoverable(t.Context(), true) {
		wantErr(t, err, snapshot.ErrDamaged)
		told = append(told, session)
	}
	if !slices.Equal(told, []string{"s"}) {
		t.Errorf("told of %q", told)
	}
}
