package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// pays returns an intent that pays once, and keeps the receipt.
func pays(s shop, o orchestrator.OnceOptions[string]) func(context.Context, *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		receipt, err := s.Vendor.Once(ctx, t, t.Input.Text, o)
		t.State.Said = append(t.State.Said, receipt)
		return err
	}
}

// A turn that runs again after a crash gives back what was recorded.
func TestOnceAfterCrash(t *testing.T) {
	for _, class := range []ledger.Class{ledger.Ask, ledger.Idempotent, ledger.Verifiable} {
		s := newShop()
		pay := pays(s, orchestrator.OnceOptions[string]{Class: class})
		s.Crash(t, func(die func()) Def {
			return single(func(ctx context.Context, t *Turn) error {
				defer die()
				return pay(ctx, t)
			})
		}, Input{Text: "shoes"})
		d := new(diary)
		res, err := s.Start(t, single(pay), Options{}).Resume(t.Context(), "s",
			&orchestrator.CallOptions{OnEvent: d.Note})
		if err != nil {
			t.Fatal(err)
		}
		wantSaid(t, res.State, "receipt 1 for shoes")
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("class %d: paid %d times", class, n)
		}
		if !strings.Contains(d.Kinds(), "effect.replayed") {
			t.Errorf("class %d: no effect.replayed in %s", class, d.Kinds())
		}
	}
}

// The process dies after the vendor has paid, and before that is recorded.
func TestOnceInDoubt(t *testing.T) {
	for _, key := range []string{"", "order 7"} {
		for class, want := range map[ledger.Class]int{
			ledger.Pure: 2, ledger.Idempotent: 1, ledger.Verifiable: 1, ledger.Ask: 1,
		} {
			t.Run(fmt.Sprintf("class %d key %q", class, key), func(t *testing.T) {
				s := newShop()
				s.Vendor.Honours = class == ledger.Idempotent
				o := orchestrator.OnceOptions[string]{Class: class, Key: key}
				s.Crash(t, func(die func()) Def {
					return single(func(ctx context.Context, t *Turn) error {
						if class == ledger.Verifiable {
							o.Verify = s.Vendor.Find
						}
						_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
							defer die()
							return s.Vendor.Pay(key, t.Input.Text)
						}, &o)
						return err
					})
				}, Input{Text: "shoes"})
				bot := s.Start(t, single(pays(s, o)), Options{})
				res, err := bot.Resume(t.Context(), "s", nil)
				if class == ledger.Ask {
					if d := theDoubt(t, err, true); !strings.Contains(d.Error(), "its process has gone") {
						t.Errorf("it does not say why: %v", d)
					}
				} else if err != nil {
					t.Fatal(err)
				} else {
					wantSaid(t, res.State, fmt.Sprintf("receipt %d for shoes", want))
				}
				if n := s.Vendor.Count(); n != want {
					t.Errorf("paid %d times, want %d", n, want)
				}
			})
		}
	}
}

// AbandonFirst ends no run that waits for an answer. An answered run is finished.
func TestAnsweredUnderAbandonFirst(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Key: "7"})),
		Options{OnInterrupted: orchestrator.AbandonFirst})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
	d := theDoubt(t, err, true)
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "hat"}, nil); !errors.Is(err, orchestrator.ErrSuspended) {
		t.Fatal(err)
	}
	answer := ledger.Answer{Landed: true, Result: []byte(`"paid"`), By: "ann"}
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], answer); err != nil {
		t.Fatal(err)
	}
	res := execute(t, bot, Input{Text: "hat"})
	if res.Resumed == nil || res.Resumed.Input.Text != "shoes" {
		t.Errorf("the answered run was dropped: %+v", res)
	}
}

// Abandon ends a suspended run. What it may have paid stays in doubt, and the next run that names it by its Key waits
// for the answer too.
func TestAbandonedDoubt(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Key: "7"})), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
	d := theDoubt(t, err, true)
	if ended, err := bot.Abandon(t.Context(), "s", d.RunID); !ended || err != nil {
		t.Fatal(ended, err)
	}
	_, err = bot.Execute(t.Context(), "s", Input{Text: "shoes again"}, nil)
	again := theDoubt(t, err, true)
	if again.RunID == d.RunID || again.Effects[0] != d.Effects[0] {
		t.Errorf("%+v, then %+v", d, again)
	}
	if due := recoverable(t, bot, true); len(due) > 0 {
		t.Errorf("due before the answer: %q", due)
	}
	answer := ledger.Answer{Landed: true, Result: []byte(`"paid"`), By: "ann"}
	if err := ledger.Resolve(t.Context(), s.Ledger, d.Effects[0], answer); err != nil {
		t.Fatal(err)
	}
	if due := recoverable(t, bot, true); !slices.Equal(due, []string{"s"}) {
		t.Errorf("due: %q", due)
	}
	res, err := bot.Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	wantSaid(t, res.State, "paid")
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// A, B, A leaves A: a place is no hash of the arguments. Section 3, 24.
func TestABA(t *testing.T) {
	s := newShop()
	set := ""
	d := single(func(ctx context.Context, t *Turn) error {
		for i, color := range []string{"red", "blue", "red"} {
			_, err := orchestrator.Once(ctx, t, "paint", func(context.Context, string) (bool, error) {
				set = color
				return true, nil
			}, &orchestrator.OnceOptions[bool]{Each: fmt.Sprint(i), Args: color})
			if err != nil {
				return err
			}
		}
		return nil
	})
	execute(t, s.Start(t, d, Options{}), Input{})
	if set != "red" {
		t.Errorf("A, B, A leaves %s", set)
	}
}

// A timeout that landed is not paid twice. Section 3, 25.
func TestTimeoutThatLanded(t *testing.T) {
	for class, honours := range map[ledger.Class]bool{ledger.Verifiable: false, ledger.Idempotent: true} {
		s := newShop()
		s.Vendor.Honours, s.Vendor.Fail = honours, []error{errTimeout}
		d := single(nil)
		d.Intents = Intents{"work": {
			Run: pays(s, orchestrator.OnceOptions[string]{Class: class}), Retry: retry.Policy{Attempts: 2},
		}}
		res := execute(t, s.Start(t, d, Options{}), Input{Text: "shoes"})
		wantSaid(t, res.State, "receipt 1 for shoes")
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("class %d: paid %d times", class, n)
		}
	}
}

// A model that words its arguments anew after a crash does not send a second mail. Section 3, 27.
func TestRewordedArguments(t *testing.T) {
	for name, crashIn := range map[string]bool{"before the outcome is recorded": true, "after": false} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			sent := 0
			words := "Dear customer"
			mail := func(done func()) func(context.Context, *Turn) error {
				return func(ctx context.Context, t *Turn) error {
					_, err := orchestrator.Once(ctx, t, "mail", func(context.Context, string) (int, error) {
						if sent++; crashIn {
							done()
						}
						return sent, nil
					}, &orchestrator.OnceOptions[int]{Args: map[string]string{"text": words}})
					done()
					return err
				}
			}
			s.Crash(t, func(die func()) Def { return single(mail(die)) }, Input{})
			words = "Hello"
			_, err := s.Start(t, single(mail(func() {})), Options{}).Resume(t.Context(), "s", nil)
			wantErr(t, err, ledger.ErrChanged)
			if crashIn {
				wantDoubt(t, err, true)
			}
			if p, is := errors.AsType[*orchestrator.PanicError](err); is {
				t.Error(p)
			}
			if sent != 1 {
				t.Errorf("sent %d times", sent)
			}
		})
	}
}

// Equal values are equal arguments, however they are written.
func TestSameArguments(t *testing.T) {
	s := newShop()
	var args any
	d := single(func(ctx context.Context, t *Turn) error {
		_, err := orchestrator.Once(ctx, t, "mail", func(context.Context, string) (int, error) { return 1, nil },
			&orchestrator.OnceOptions[int]{Key: t.Input.Text, Args: args})
		return err
	})
	bot := s.Start(t, d, Options{})
	raw := func(text string) any { return jsonText(text) }
	args = raw(`{"a":1.50,"b":[1e2,-0.0,0.001]}`)
	execute(t, bot, Input{Text: "x"})
	args = raw(`{ "b": [100, 0, 1E-3], "a": 15e-1 }`)
	execute(t, bot, Input{Text: "x"})
	for _, other := range []string{`{"a":1.5,"b":[100,0,0.01]}`, `{"a":-1.5,"b":[100,0,0.001]}`, `{"a":"1.5","b":[100,0,0.001]}`, `null`} {
		args = raw(other)
		if _, err := bot.Execute(t.Context(), "s", Input{Text: "x"}, nil); !errors.Is(err, ledger.ErrChanged) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

type jsonText string

func (j jsonText) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// What certainly failed is tried again, and a crash in the second attempt shows. Section 3, 26.
func TestFailedAgain(t *testing.T) {
	s := newShop()
	tries := 0
	declined := func(after func()) Def {
		return single(func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (int, error) {
				if tries++; tries == 1 {
					return 0, ledger.NotDone(errDeclined)
				}
				after()
				return tries, nil
			}, &orchestrator.OnceOptions[int]{Key: "7"})
			return err
		})
	}
	bot := s.Start(t, declined(nil), Options{})
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil); !errors.Is(err, errDeclined) {
		t.Fatal(err)
	}
	if e := s.Effect(t); e.State != ledger.Failed || e.Error != errDeclined.Error() {
		t.Errorf("%s: %s", e.State, e.Error)
	}
	s.Crash(t, declined, Input{Text: "b"})
	if e := s.Effect(t); e.State != ledger.Issued || e.Attempts != 2 {
		t.Errorf("%s after %d attempts", e.State, e.Attempts)
	}
	_, err := bot.Resume(t.Context(), "s", nil)
	wantDoubt(t, err, true)
	if tries != 2 {
		t.Errorf("%d tries", tries)
	}
}

// A resumed loop in another order takes no receipt of another item.
func TestLoopInAnotherOrder(t *testing.T) {
	s := newShop()
	loop := func(die func(), names ...string) Def {
		return single(func(ctx context.Context, t *Turn) error {
			for i, name := range names {
				receipt, err := s.Vendor.Once(ctx, t, name, orchestrator.OnceOptions[string]{Each: name})
				if err != nil {
					return err
				}
				if !strings.HasSuffix(receipt, name) {
					return fmt.Errorf("%s: %s", name, receipt)
				}
				if i == 1 {
					die()
				}
			}
			return nil
		})
	}
	s.Crash(t, func(die func()) Def { return loop(die, "hat", "shoes", "coat") }, Input{})
	bot := s.Start(t, loop(func() {}, "coat", "hat", "shoes"), Options{})
	if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if n := s.Vendor.Count(); n != 3 {
		t.Errorf("paid %d times", n)
	}
}

// The turn has paid and then fails. The customer's next message pays no second time: the order is the same. K45.
func TestPaidThenComposeFails(t *testing.T) {
	s := newShop()
	d := single(nil)
	d.Iterate = true
	d.Intents = Intents{
		"refund": {Run: pays(s, orchestrator.OnceOptions[string]{Key: "order 7"}), Next: orchestrator.To("compose")},
		"compose": {Next: orchestrator.End, Run: func(_ context.Context, t *Turn) error {
			if t.Input.Text == "shoes" {
				return errors.New("the model is away")
			}
			return nil
		}},
	}
	d.First = "refund"
	bot := s.Start(t, d, Options{})
	if _, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil); err == nil {
		t.Fatal("composed")
	}
	wantSaid(t, execute(t, bot, Input{Text: "well?"}).State, "receipt 1 for shoes")
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// Two sessions name one effect at once. One is at work, and the other waits without asking the vendor.
func TestTwoSessionsOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		paying, goOn := make(chan struct{}), make(chan struct{})
		first := true
		verified := 0
		d := single(func(ctx context.Context, t *Turn) error {
			receipt, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
				if first {
					first = false
					close(paying)
					<-goOn
				}
				return s.Vendor.Pay(key, "shoes")
			}, &orchestrator.OnceOptions[string]{
				Class: ledger.Verifiable, Key: "7",
				Verify: func(ctx context.Context, key string) (string, bool, error) {
					verified++
					return s.Vendor.Find(ctx, key)
				},
			})
			t.State.Said = append(t.State.Said, receipt)
			return err
		})
		bot := s.Start(t, d, Options{})
		done := make(chan error)
		go func() {
			_, err := bot.Execute(t.Context(), "a", Input{}, nil)
			done <- err
		}()
		<-paying
		_, err := bot.Execute(t.Context(), "b", Input{}, nil)
		wantDoubt(t, err, false)
		wantErr(t, err, lock.ErrHeld)
		run := wantRuns(t, bot, 2)[1]
		if run.Session != "b" || run.Status != snapshot.Waiting || run.Attempt > 1 ||
			run.Pause <= 0 || run.Pause > 5*time.Second {
			t.Errorf("%+v", run)
		}
		if due := recoverable(t, bot, false); len(due) > 0 {
			t.Errorf("due: %q", due)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if due := recoverable(t, bot, false); !slices.Equal(due, []string{"b"}) {
			t.Errorf("due: %q", due)
		}
		if outcome, err := bot.Recover(t.Context(), "b"); outcome != "settled" || err != nil {
			t.Error(outcome, err)
		}
		if n := s.Vendor.Count(); n != 1 || verified > 0 {
			t.Errorf("paid %d times, asked %d times", n, verified)
		}
	})
}

// Two branches name one Key at once. The second gets what the first has recorded.
func TestOneKeyInTwoBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		pay := Intent{Run: func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
				synctest.Wait() // until the other one waits for this one
				return s.Vendor.Pay(key, "shoes")
			}, &orchestrator.OnceOptions[string]{Key: "7"})
			return err
		}}
		d := Def{Name: "shop", Intents: Intents{"a": pay, "b": pay}, Route: func(context.Context, *Turn) (Next, error) {
			return orchestrator.To("a", "b"), nil
		}}
		execute(t, s.Start(t, d, Options{}), Input{})
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("paid %d times", n)
		}
	})
}

// Each function of the bot, each item and each iteration has places of its own, whatever the intents are named.
func TestPlaces(t *testing.T) {
	s := newShop()
	buy := func(ctx context.Context, t *Turn) error {
		_, err := s.Vendor.Once(ctx, t, "it", orchestrator.OnceOptions[string]{})
		return err
	}
	d := Def{
		Name: "shop", Iterate: true,
		Intents: Intents{
			"route": {Run: buy, Then: func(ctx context.Context, t *Turn) (Next, error) { return Next{}, buy(ctx, t) }},
			"then":  {Run: buy, Then: func(ctx context.Context, t *Turn) (Next, error) { return Next{}, buy(ctx, t) }},
			"each":  {Run: buy},
		},
		Route: func(ctx context.Context, t *Turn) (Next, error) {
			if t.Iteration == 2 {
				return orchestrator.End, nil
			}
			return orchestrator.To("route", "then").And(orchestrator.ForEach("each", 1, 2)), buy(ctx, t)
		},
		Evaluate: func(ctx context.Context, t *Turn) (Next, error) { return Next{}, buy(ctx, t) },
	}
	execute(t, s.Start(t, d, Options{}), Input{})
	if n := s.Vendor.Count(); n != 2*8 {
		t.Errorf("%d effects, want 16", n)
	}
}

// One attempt that names two effects alike is refused before anything is written. Another attempt may.
func TestRepeated(t *testing.T) {
	s := newShop()
	d := single(nil)
	d.Intents = Intents{"work": {Retry: retry.Policy{Attempts: 2}, Run: func(ctx context.Context, t *Turn) error {
		if _, err := s.Vendor.Once(ctx, t, "a", orchestrator.OnceOptions[string]{}); err != nil {
			return err
		}
		_, err := s.Vendor.Once(ctx, t, "b", orchestrator.OnceOptions[string]{})
		return err
	}}}
	_, err := s.Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, ledger.ErrRepeated)
	if n := s.Vendor.Count(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// Doubt wins over the failure of a sibling. Finished branches are kept.
func TestDoubtInFanOut(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	var ran atomic.Int32
	var lucky atomic.Bool
	d := Def{
		Name:  "shop",
		Route: func(context.Context, *Turn) (Next, error) { return orchestrator.To("fail", "fine", "pay"), nil },
		Intents: Intents{
			"fine": {Run: func(_ context.Context, t *Turn) error { ran.Add(1); t.State.N = 1; return nil }},
			"fail": {Run: func(_ context.Context, t *Turn) error {
				if !lucky.Load() {
					return errors.New("no luck")
				}
				return nil
			}},
			"pay": {Run: func(ctx context.Context, t *Turn) (err error) {
				t.State.A, err = s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
				return fmt.Errorf("paying: %w", errors.Join(err, errors.New("and more")))
			}},
		},
	}
	pay := d.Intents["pay"]
	d.Intents["pay"] = Intent{Retry: retry.Policy{Attempts: 3}, Run: func(ctx context.Context, t *Turn) error {
		if err := pay.Run(ctx, t); t.State.A == "" {
			return err
		}
		return nil
	}}
	bot := s.Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	doubt := theDoubt(t, err, true)
	answer := ledger.Answer{Landed: true, Result: []byte(`"paid"`), By: "ann"}
	if err := ledger.Resolve(t.Context(), s.Ledger, doubt.Effects[0], answer); err != nil {
		t.Fatal(err)
	}
	lucky.Store(true)
	res, err := bot.Resume(t.Context(), "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if ran.Load() != 1 || res.State.A != "paid" || res.State.N != 1 || s.Vendor.Count() != 1 {
		t.Errorf("fine ran %d times, %+v, paid %d times", ran.Load(), res.State, s.Vendor.Count())
	}
}

// An intent that does not return the doubt goes on. The turn settles, and the effect stays open.
func TestDoubtKept(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	d := single(func(ctx context.Context, t *Turn) error {
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		if errors.Is(err, ledger.ErrInDoubt) {
			t.State.Said = append(t.State.Said, "we look into it")
			return nil
		}
		return err
	})
	wantSaid(t, execute(t, s.Start(t, d, Options{}), Input{}).State, "we look into it")
	if e := s.Effect(t); e.State != ledger.Unknown || e.Error != errTimeout.Error() {
		t.Errorf("%s: %s", e.State, e.Error)
	}
}

// A panic and an error of Verify leave the outcome unknown. The turn waits, and is tried again.
func TestDoubtWithoutAsking(t *testing.T) {
	s := newShop()
	calls, away := 0, true
	d := single(func(ctx context.Context, t *Turn) error {
		_, err := orchestrator.Once(ctx, t, "pay", func(context.Context, string) (string, error) {
			calls++
			panic("boom")
		}, &orchestrator.OnceOptions[string]{
			Class: ledger.Verifiable,
			Verify: func(context.Context, string) (string, bool, error) {
				if away {
					return "", false, errors.New("the vendor is away")
				}
				return "found", true, nil
			},
		})
		return err
	})
	bot := s.Start(t, d, Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantDoubt(t, err, false)
	if _, ok := errors.AsType[*orchestrator.PanicError](err); !ok {
		t.Errorf("%v tells of no panic", err)
	}
	_, err = bot.Resume(t.Context(), "s", nil)
	wantDoubt(t, err, false)
	if run := wantRuns(t, bot, 1)[0]; run.Status != snapshot.Waiting || run.Attempt != 2 || run.Pause <= 0 {
		t.Errorf("%+v", run)
	}
	away = false
	if _, err := bot.Resume(t.Context(), "s", nil); err != nil {
		t.Fatal(err)
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// What no ledger takes is refused before the function is called. A result that no ledger takes is in doubt.
func TestOnceBadInput(t *testing.T) {
	long := strings.Repeat("x", 513)
	called := false
	for name, c := range map[string]struct {
		name string
		o    orchestrator.OnceOptions[any]
	}{
		"no name":               {"", orchestrator.OnceOptions[any]{}},
		"long name":             {long, orchestrator.OnceOptions[any]{}},
		"long key":              {"pay", orchestrator.OnceOptions[any]{Key: long}},
		"long each":             {"pay", orchestrator.OnceOptions[any]{Each: long}},
		"NUL in key":            {"pay", orchestrator.OnceOptions[any]{Key: "a\x00"}},
		"no class":              {"pay", orchestrator.OnceOptions[any]{Class: 4}},
		"negative class":        {"pay", orchestrator.OnceOptions[any]{Class: -1}},
		"no Verify":             {"pay", orchestrator.OnceOptions[any]{Class: ledger.Verifiable}},
		"arguments are no JSON": {"pay", orchestrator.OnceOptions[any]{Args: func() {}}},
		"large arguments":       {"pay", orchestrator.OnceOptions[any]{Args: strings.Repeat("x", ledger.MaxDocument)}},
		"NUL in arguments":      {"pay", orchestrator.OnceOptions[any]{Args: "\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, byHand := range []bool{false, true} {
				s := newShop()
				called = false
				run := func(ctx context.Context, t *Turn) error {
					_, err := orchestrator.Once(ctx, t, c.name, func(context.Context, string) (any, error) {
						called = true
						return nil, nil
					}, &c.o)
					return err
				}
				var err error
				if byHand {
					err = run(t.Context(), new(Turn))
				} else {
					_, err = s.Start(t, single(run), Options{}).Execute(t.Context(), "s", Input{}, nil)
					wantOp(t, err, "intent")
				}
				wantErr(t, err, ledger.ErrInvalid)
				if called || len(s.Effects(t, ledger.Query{})) > 0 {
					t.Error("it was tried all the same")
				}
			}
		})
	}
	for _, byHand := range []bool{false, true} { // no function: nothing is issued, and nobody is asked
		s := newShop()
		run := func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once[any](ctx, t, "pay", nil, nil)
			return err
		}
		err := run(t.Context(), new(Turn))
		if !byHand {
			_, err = s.Start(t, single(run), Options{}).Execute(t.Context(), "s", Input{}, nil)
			wantOp(t, err, "intent")
		}
		if wantErr(t, err, ledger.ErrInvalid); len(s.Effects(t, ledger.Query{})) > 0 {
			t.Error("an effect without a function is issued")
		}
	}
	for name, result := range map[string]any{
		"no JSON": func() {}, "large": strings.Repeat("x", ledger.MaxDocument), "NUL": "\x00",
	} {
		t.Run("result "+name, func(t *testing.T) {
			s := newShop()
			_, err := s.Start(t, single(func(ctx context.Context, t *Turn) error {
				_, err := orchestrator.Once(ctx, t, "pay",
					func(context.Context, string) (any, error) { return result, nil }, nil)
				return err
			}), Options{}).Execute(t.Context(), "s", Input{}, nil)
			wantDoubt(t, err, true)
			if e := s.Effect(t); e.State != ledger.Unknown || !strings.HasPrefix(e.Error, "it ran, and its result") {
				t.Errorf("%s: %s", e.State, e.Error)
			}
		})
	}
}

// Once has no place in Begin, after its function has returned, or without a ledger.
func TestOnceOutOfPlace(t *testing.T) {
	s := newShop()
	pay := pays(s, orchestrator.OnceOptions[string]{})
	d := echo()
	d.Begin = pay
	_, err := s.Start(t, d, Options{}).Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, ledger.ErrInvalid)

	_, err = s.World.Start(t, single(pay), Options{}).Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, orchestrator.ErrNoLedger)

	var kept *Turn
	execute(t, s.Start(t, single(func(_ context.Context, t *Turn) error { kept = t; return nil }), Options{}), Input{})
	if err := pay(t.Context(), kept); err == nil {
		t.Error("a turn that is over has paid")
	}
	if e, err := orchestrator.EffectOf[string](kept, "pay", nil); err == nil {
		t.Errorf("a turn that is over has the effect %+v", e)
	}
	if n := s.Vendor.Count(); n > 0 {
		t.Errorf("paid %d times", n)
	}
	if err := pay(t.Context(), new(Turn)); err != nil || s.Vendor.Count() != 1 {
		t.Errorf("by hand: %v, paid %d times", err, s.Vendor.Count())
	}
}

// The ledger does not answer: the turn is left in flight, and nothing after that runs.
func TestLedgerAway(t *testing.T) {
	for _, c := range []struct {
		method string
		class  ledger.Class
		paid   int // by the first attempt
		total  int // in the end
	}{
		{"Issue", ledger.Ask, 0, 1},
		{"Issue", ledger.Idempotent, 0, 1},
		{"Finish", ledger.Ask, 1, 1},
		{"Finish", ledger.Verifiable, 1, 1},
		{"Record", ledger.Pure, 1, 2},
	} {
		for name, keeps := range map[string]bool{"returned": true, "swallowed": false} {
			t.Run(fmt.Sprint(c.method, " ", c.class, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newShop()
					after, away := 0, true
					around := func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
						if away {
							return errors.New("no route to host")
						}
						return next(ctx)
					}
					d := Def{
						Name: "shop", Iterate: true, First: "pay",
						Intents: Intents{
							"pay": {Next: orchestrator.To("after"), Retry: retry.Policy{Attempts: 3}, Run: func(ctx context.Context, t *Turn) error {
								_, err := s.Vendor.Once(ctx, t, "shoes",
									orchestrator.OnceOptions[string]{Class: c.class})
								if keeps || !away {
									return err
								}
								return nil
							}},
							"after": {Next: orchestrator.End, Run: func(context.Context, *Turn) error { after++; return nil }},
						},
					}
					bot := s.Start(t, d, Options{
						Ledger: faulttest.Ledger(s.Ledger, faulttest.On(around, c.method, "AdoptEffects")),
					})
					_, err := bot.Execute(t.Context(), "s", Input{}, nil)
					wantErr(t, err, orchestrator.ErrIndeterminate)
					if s.Vendor.Count() != c.paid || after > 0 {
						t.Errorf("paid %d times, went on %d times", s.Vendor.Count(), after)
					}
					attempt := wantRuns(t, bot, 1)[0].Attempt
					if _, err := bot.Resume(t.Context(), "s", nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
						t.Errorf("taken up without the ledger: %v", err)
					}
					if run := wantRuns(t, bot, 1)[0]; run.Attempt != attempt {
						t.Errorf("attempt %d counted, was %d", run.Attempt, attempt)
					}
					away = false
					_, err = bot.Resume(t.Context(), "s", nil)
					if c.method == "Finish" && c.class == ledger.Ask {
						wantDoubt(t, err, true)
					} else if err != nil || after != 1 {
						t.Errorf("%v, went on %d times", err, after)
					}
					if n := s.Vendor.Count(); n != c.total {
						t.Errorf("paid %d times, want %d", n, c.total)
					}
				})
			})
		}
	}
}

// An effect that a goroutine of the turn leaves behind is Unknown when the turn settles. Its result is taken.
func TestEffectLeftBehind(t *testing.T) {
	for name, end := range map[string]error{"settled": nil, "failed": errors.New("no")} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			paying, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
			bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
				go func() {
					_, err := orchestrator.Once(context.WithoutCancel(ctx), t, "pay",
						func(_ context.Context, key string) (string, error) {
							close(paying)
							<-goOn
							return s.Vendor.Pay(key, "shoes")
						}, &orchestrator.OnceOptions[string]{Key: "7"})
					done <- err
				}()
				<-paying
				return end
			}), Options{})
			if _, err := bot.Execute(t.Context(), "s", Input{}, nil); !errors.Is(err, end) {
				t.Fatal(err)
			}
			if e := s.Effect(t); e.State != ledger.Unknown {
				t.Errorf("%s after the turn", e.State)
			}
			close(goOn)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if e := s.Effect(t); e.State != ledger.Completed {
				t.Errorf("%s after the result", e.State)
			}
		})
	}
}

// A run whose owner was fenced off by the ledger ends. Its late result is recorded.
func TestFencedByLedger(t *testing.T) {
	s := newShop()
	var second error
	bot := s.Start(t, single(func(ctx context.Context, turn *Turn) error {
		_, err := orchestrator.Once(ctx, turn, "pay", func(ctx context.Context, key string) (string, error) {
			e := s.Effect(t)
			if err := s.Ledger.Adopt(ctx, e.RunID, lock.Fence{Epoch: e.Fence.Epoch + 1, Nonce: "other"}); err != nil {
				return "", err
			}
			return s.Vendor.Pay(key, "shoes")
		}, nil)
		if err != nil {
			return err
		}
		_, second = orchestrator.Once(ctx, turn, "more", func(_ context.Context, key string) (string, error) {
			return s.Vendor.Pay(key, "more")
		}, nil)
		if ctx.Err() == nil {
			t.Error("the context goes on")
		}
		return nil
	}), Options{})
	_, err := bot.Execute(t.Context(), "s", Input{}, nil)
	wantErr(t, err, lock.ErrFenced, orchestrator.ErrIndeterminate)
	wantErr(t, second, lock.ErrFenced)
	if e := s.Effect(t); e.State != ledger.Completed || s.Vendor.Count() != 1 {
		t.Errorf("%s, paid %d times", e.State, s.Vendor.Count())
	}
}

// The same request id again is the same run, also without a snapshot store. Its first effect adopts what it finds.
func TestOnceWithoutSnapshots(t *testing.T) {
	s := newShop()
	s.Snapshots = nil
	s.Vendor.Honours = true
	fail := errors.New("no")
	bot, err := orchestrator.New(single(func(ctx context.Context, t *Turn) error {
		if _, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{}); err != nil {
			return err
		}
		return fail
	}), s.Checkpoints, &Options{Ledger: s.Ledger, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	in := Input{RequestID: "1"}
	if _, err := bot.Execute(t.Context(), "s", in, nil); !errors.Is(err, fail) {
		t.Fatal(err)
	}
	fail = nil
	if _, err := bot.Execute(t.Context(), "s", in, nil); err != nil || s.Vendor.Count() != 1 {
		t.Errorf("%v, paid %d times", err, s.Vendor.Count())
	}
}
