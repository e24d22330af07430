package orchestrator_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// A goroutine of the function is at work on an effect, and no store takes the state. The turn is not told as failed:
// the effect may land yet.
func TestLeftBehindByBadState(t *testing.T) {
	for name, spoil := range map[string]func(*badState){
		"too large": func(s *badState) { s.Text = strings.Repeat("x", 5<<20) },
		"no JSON":   func(s *badState) { s.Number = math.NaN() },
	} {
		for class, ask := range map[ledger.Class]bool{ledger.Ask: true, ledger.Idempotent: false} {
			t.Run(fmt.Sprint(name, class), func(t *testing.T) {
				s := newShop()
				paying, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
				bot, err := orchestrator.New(
					orchestrator.Definition[badState]{Name: "shop", Intents: orchestrator.Intents[badState]{
						"work": {Run: func(ctx context.Context, t *orchestrator.Turn[badState]) error {
							go func() {
								_, err := orchestrator.Once(
									context.WithoutCancel(ctx),
									t,
									"pay",
									func(_ context.Context, key string) (string, error) {
										close(paying)
										<-goOn
										return s.Vendor.Pay(key, "shoes")
									},
									&orchestrator.OnceOptions[string]{Class: class},
								)
								done <- err
							}()
							<-paying
							spoil(&t.State)
							return nil
						}},
					}},
					s.Checkpoints,
					&Options{Snapshots: s.Snapshots, Ledger: s.Ledger, Logger: quiet()},
				)
				if err != nil {
					t.Fatal(err)
				}
				_, err = bot.Execute(t.Context(), "s", Input{RequestID: "r"}, nil)
				d := theDoubt(t, err, ask)
				if id := s.Effect(t).ID; !slices.Equal(d.Effects, []string{id}) {
					t.Errorf("in doubt: %q, want %q", d.Effects, id)
				}
				close(goOn)
				if err := <-done; err != nil || s.Effect(t).State != ledger.Completed {
					t.Errorf("the late result: %v, %s", err, s.Effect(t).State)
				}
			})
		}
	}
}

type badState struct {
	Text   string
	Number float64
}

// twice is a bot with one intent, which has two attempts.
func twice(run func(context.Context, *Turn) error) Def {
	d := single(nil)
	d.Intents = Intents{"work": {Run: run, Retry: retry.Policy{Attempts: 2}}}
	return d
}

// The ledger does not answer when a result is recorded. Once says so, and gives no result.
func TestFinishAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop()
		calls, away := 0, true
		var last error
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, last = orchestrator.Once(ctx, t, "pay", func(context.Context, string) (int, error) {
				calls++
				return calls, nil
			}, &orchestrator.OnceOptions[int]{Class: ledger.Idempotent})
			return last
		}), Options{Ledger: faulttest.Ledger(s.Ledger, faulttest.On(
			func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
				if away {
					return errAway
				}
				return next(ctx)
			}, "Finish"))})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, orchestrator.ErrIndeterminate)
		wantErr(t, last, errAway)
		away = false
		if _, err := bot.Resume(t.Context(), "s", nil); err != nil || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

// The goroutine of a function ends without a word, after it has paid. The next attempt asks the vendor.
func TestOnceGoroutineEnds(t *testing.T) {
	for class, asks := range map[ledger.Class]bool{ledger.Verifiable: false, ledger.Ask: true} {
		s := newShop()
		o := &orchestrator.OnceOptions[string]{Class: class, Verify: s.Vendor.Find}
		bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
			receipt, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
				_, _ = s.Vendor.Pay(key, "shoes")
				runtime.Goexit()
				return "", nil
			}, o)
			t.State.Said = append(t.State.Said, receipt)
			return err
		}), Options{})
		res, err := bot.Execute(t.Context(), "s", Input{}, nil)
		if asks {
			wantDoubt(t, err, true)
		} else if err != nil {
			t.Error(err)
		} else {
			wantSaid(t, res.State, "receipt 1 for shoes")
		}
		if n := s.Vendor.Count(); n != 1 {
			t.Errorf("class %d: paid %d times", class, n)
		}
	}
}

// The ledger does not answer when what has failed, or is in doubt, is issued anew. Once says so, and nothing is called.
func TestIssueAnewAway(t *testing.T) {
	for class, first := range map[ledger.Class]error{
		ledger.Ask: ledger.NotDone(errDeclined), ledger.Idempotent: errTimeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop()
			issues, calls, away := 0, 0, true
			var last error
			bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
				_, last = orchestrator.Once(ctx, t, "pay", func(context.Context, string) (int, error) {
					if calls++; calls == 1 {
						return 0, first
					}
					return calls, nil
				}, &orchestrator.OnceOptions[int]{Class: class})
				return last
			}), Options{Ledger: faulttest.Ledger(s.Ledger, faulttest.On(
				func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
					if issues++; issues > 2 && away { // new, known, anew
						return errAway
					}
					return next(ctx)
				}, "Issue"))})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			wantErr(t, err, orchestrator.ErrIndeterminate)
			if wantErr(t, last, errAway); calls != 1 {
				t.Errorf("%d calls", calls)
			}
			away = false
			if _, err := bot.Resume(t.Context(), "s", nil); err != nil || calls != 2 {
				t.Errorf("%v after %d calls", err, calls)
			}
		})
	}
}

// A turn ends while goroutines of its function are at work on effects. All of them are Unknown. If the ledger does not
// answer then, the turn is left in flight.
func TestManyLeftBehind(t *testing.T) {
	for name, c := range map[string]struct {
		away bool
		end  error
	}{"known": {false, nil}, "away": {true, nil}, "away, and the turn fails": {true, errors.New("no")}} {
		t.Run(name, func(t *testing.T) {
			away := c.away
			synctest.Test(t, func(t *testing.T) {
				s := newShop()
				goOn := make(chan struct{})
				bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
					for _, each := range []string{"a", "b", "c"} {
						go func() {
							_, _ = orchestrator.Once(context.WithoutCancel(ctx), t, "pay",
								func(context.Context, string) (int, error) { <-goOn; return 1, nil },
								&orchestrator.OnceOptions[int]{Each: each})
						}()
					}
					synctest.Wait()
					return c.end
				}), Options{Ledger: faulttest.Ledger(s.Ledger, faulttest.On(
					func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
						if away {
							return errAway
						}
						return next(ctx)
					}, "Finish"))})
				_, err := bot.Execute(t.Context(), "s", Input{}, nil)
				if away {
					wantErr(t, err, orchestrator.ErrIndeterminate, errAway)
					wantRuns(t, bot, 1)
				} else if err != nil {
					t.Error(err)
				}
				for _, e := range s.Effects(t, ledger.Query{}) {
					if e.State != ledger.Unknown && !away {
						t.Errorf("%s is %s", e.Each, e.State)
					}
				}
				away = false
				close(goOn)
				synctest.Wait()
				for _, e := range s.Effects(t, ledger.Query{}) {
					if e.State != ledger.Completed {
						t.Errorf("%s is %s after its result", e.Each, e.State)
					}
				}
			})
		})
	}
}

// A goroutine of a function names an effect in time, and comes to Issue after the turn has settled.
func TestIssueAfterSettle(t *testing.T) {
	s := newShop()
	judging, goOn, done := make(chan struct{}), make(chan struct{}), make(chan error)
	bot := s.Start(t, single(func(ctx context.Context, turn *Turn) error {
		go func() {
			_, err := orchestrator.Once(context.WithoutCancel(ctx), turn, "pay",
				func(_ context.Context, key string) (string, error) { return s.Vendor.Pay(key, "shoes") }, nil)
			done <- err
		}()
		<-judging
		return nil
	}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
		close(judging)
		<-goOn
		return e
	}}})
	execute(t, bot, Input{})
	close(goOn)
	if err := <-done; err == nil || s.Vendor.Count() > 0 || len(s.Effects(t, ledger.Query{})) > 0 {
		t.Errorf("%v, paid %d times", err, s.Vendor.Count())
	}
}

// An effect that two errors tell of is named once.
func TestDoubtNamesOnce(t *testing.T) {
	s := newShop()
	s.Vendor.Fail = []error{errTimeout}
	_, err := s.Start(t, single(func(ctx context.Context, t *Turn) error {
		_, err := s.Vendor.Once(ctx, t, "shoes", orchestrator.OnceOptions[string]{})
		return errors.Join(err, err)
	}), Options{}).Execute(t.Context(), "s", Input{}, nil)
	if d := theDoubt(t, err, true); len(d.Effects) != 1 {
		t.Errorf("%q", d.Effects)
	}
}

// What was in doubt is not any more, once a person has answered: a failure after that is a failure.
func TestDoubtEnds(t *testing.T) {
	later := errors.New("something else")
	for name, a := range map[string]ledger.Answer{
		"landed": {Landed: true, Result: json.RawMessage(`"by hand"`)}, "skip": {Skip: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			s.Vendor.Fail = []error{errTimeout}
			a.By = "Ann"
			bot := s.Start(t, twice(func(ctx context.Context, turn *Turn) error {
				_, err := s.Vendor.Once(ctx, turn, "shoes", orchestrator.OnceOptions[string]{Class: ledger.Idempotent})
				if errors.Is(err, ledger.ErrInDoubt) {
					return errors.Join(err, ledger.Resolve(ctx, s.Ledger, s.Effect(t).ID, a))
				}
				return later
			}), Options{})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			wantErr(t, err, later)
			if errors.Is(err, ledger.ErrInDoubt) || errors.Is(err, orchestrator.ErrIndeterminate) {
				t.Errorf("still in doubt: %v", err)
			}
			wantRuns(t, bot, 0)
			if n := s.Vendor.Count(); n != 1 {
				t.Errorf("paid %d times", n)
			}
		})
	}
}

// What Verify finds is the result of the effect. If no ledger takes it, the effect stays in doubt.
func TestVerifiedIsRecorded(t *testing.T) {
	for name, c := range map[string]struct {
		found any
		want  ledger.State
	}{
		"receipt": {"receipt 7", ledger.Completed}, "no JSON": {func() {}, ledger.Unknown},
		"large": {strings.Repeat("x", ledger.MaxDocument), ledger.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
				_, err := orchestrator.Once(ctx, t, "pay",
					func(context.Context, string) (any, error) { return nil, errTimeout },
					&orchestrator.OnceOptions[any]{
						Class:  ledger.Verifiable,
						Verify: func(context.Context, string) (any, bool, error) { return c.found, true, nil },
					})
				return err
			}), Options{})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			if c.want == ledger.Unknown {
				wantDoubt(t, err, false)
			} else if err != nil {
				t.Error(err)
			}
			if e := s.Effect(t); e.State != c.want || c.want == ledger.Completed && string(e.Result) != `"receipt 7"` {
				t.Errorf("kept: %+v", e)
			}
		})
	}
}

// What did not land is done.
func TestVerifyNotLanded(t *testing.T) {
	s := newShop()
	calls := 0
	bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
		receipt, err := orchestrator.Once(ctx, t, "pay", func(_ context.Context, key string) (string, error) {
			if calls++; calls == 1 {
				return "", errTimeout // on the way there
			}
			return s.Vendor.Pay(key, "shoes")
		}, &orchestrator.OnceOptions[string]{Class: ledger.Verifiable, Verify: s.Vendor.Find, Settles: time.Nanosecond})
		t.State.Said = append(t.State.Said, receipt)
		return err
	}), Options{})
	wantSaid(t, execute(t, bot, Input{}).State, "receipt 1 for shoes")
	if e := s.Effect(t); e.State != ledger.Completed || e.Attempts != 2 || s.Vendor.Count() != 1 {
		t.Errorf("kept: %+v, paid %d times", e, s.Vendor.Count())
	}
}

// A text that is too long is cut where a character ends. A text that Redact cannot judge is not kept.
func TestErrorOfEffect(t *testing.T) {
	long := strings.Repeat("€", ledger.MaxError/3+1)
	for name, c := range map[string]struct {
		redact func(ledger.Effect) ledger.Effect
		want   func(text string) bool
	}{
		"long": {nil, func(text string) bool {
			return len(text) > ledger.MaxError-4 && len(text) <= ledger.MaxError && utf8.ValidString(text)
		}},
		"made long": {
			func(e ledger.Effect) ledger.Effect { e.Error += long; return e },
			func(text string) bool {
				return strings.HasPrefix(text, "€") && len(text) <= ledger.MaxError && utf8.ValidString(text)
			},
		},
		"panic": {
			func(e ledger.Effect) ledger.Effect {
				if e.Error != "" {
					panic("hook")
				}
				return e
			},
			func(text string) bool { return text == "Effects.Redact has panicked" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
				_, err := orchestrator.Once(ctx, t, "pay",
					func(context.Context, string) (string, error) { return "", errors.New(long) }, nil)
				return err
			}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: c.redact}})
			_, err := bot.Execute(t.Context(), "s", Input{}, nil)
			wantDoubt(t, err, true)
			if e := s.Effect(t); e.State != ledger.Unknown || !c.want(e.Error) {
				t.Errorf("%s with %d bytes: %.80s", e.State, len(e.Error), e.Error)
			}
		})
	}
}

// A result that Redact leaves out is not given back as none.
func TestRedactedToNothing(t *testing.T) {
	s := newShop()
	bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Key: "7"})), Options{
		Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
			e.Result = nil
			return e
		}},
	})
	wantSaid(t, execute(t, bot, Input{Text: "shoes"}).State, "receipt 1 for shoes")
	_, err := bot.Execute(t.Context(), "s", Input{Text: "shoes"}, nil)
	wantErr(t, err, ledger.ErrRedacted)
}

// The first result of Pure counts. If it was redacted, a second call that finds something else is told no stars.
func TestPureRedacted(t *testing.T) {
	for second, want := range map[string]error{"4111": nil, "4222": ledger.ErrRedacted} {
		s := newShop()
		found, attempts := "4111", 0
		bot := s.Start(t, twice(func(ctx context.Context, t *Turn) error {
			said, err := orchestrator.Once(ctx, t, "look",
				func(context.Context, string) (string, error) { return found, nil },
				&orchestrator.OnceOptions[string]{Class: ledger.Pure, KeepOnRetry: true})
			t.State.Said = append(t.State.Said, said)
			if attempts++; attempts == 1 {
				found, err = second, errors.New("after it")
			}
			return err
		}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
			e.Result = bytes.Replace(e.Result, []byte("4111"), []byte("****"), 1)
			return e
		}}})
		res, err := bot.Execute(t.Context(), "s", Input{}, nil)
		if wantErr(t, err, want); want == nil {
			wantSaid(t, res.State, second)
		}
		if e := s.Effect(t); string(e.Result) != `"****"` {
			t.Errorf("kept: %+v", e)
		}
	}
}

// A result of Pure that no ledger takes, as it is or as redacted, fails the turn. Nothing is in doubt.
func TestPureBadResult(t *testing.T) {
	large := strings.Repeat("x", ledger.MaxDocument)
	for name, c := range map[string]struct{ result, redacted string }{"as it is": {large, "1"}, "redacted": {"x", `"` + large + `"`}} {
		s := newShop()
		bot := s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "look",
				func(context.Context, string) (string, error) { return c.result, nil },
				&orchestrator.OnceOptions[string]{Class: ledger.Pure})
			return err
		}), Options{Effects: orchestrator.Effects{SumKey: []byte("k"), Redact: func(e ledger.Effect) ledger.Effect {
			if e.Result != nil {
				e.Result = json.RawMessage(c.redacted)
			}
			return e
		}}})
		_, err := bot.Execute(t.Context(), "s", Input{}, nil)
		wantErr(t, err, ledger.ErrInvalid)
		if errors.Is(err, ledger.ErrInDoubt) || len(s.Effects(t, ledger.Query{})) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The client of a turn in doubt is told to wait, and not that something went wrong.
func TestPublicOfDoubt(t *testing.T) {
	for class, status := range map[ledger.Class]int{ledger.Ask: 202, ledger.Idempotent: 504} {
		s := newShop()
		s.Vendor.Fail = []error{errTimeout}
		bot := s.Start(t, single(pays(s, orchestrator.OnceOptions[string]{Class: class})), Options{})
		for range 2 {
			_, err := bot.Execute(t.Context(), "s", Input{RequestID: "r", Text: "shoes"}, nil)
			if p := orchestrator.Public(err); p.Status != status || p.Retryable != (class != ledger.Ask) {
				t.Errorf("class %d: %+v for %v", class, p, err)
			}
			if class != ledger.Ask {
				break // the second call finishes the turn
			}
		}
	}
}

// The sum of arguments is kept for as long as the effect. So the same arguments have this sum in each version.
func TestSumStays(t *testing.T) {
	for key, want := range map[string]string{ // of {"a":"€","b":[-15e-1,1e2,null,true]}
		"":  "sha256:affd9a26aed6f342f489f610ed2aad48d4f654f88aa1aec40b0c41d1761162e8",
		"k": "90304b08bc4961a8:a0a3d8e8e456e7907e1cf3fc64fb5bde0de85e5c6c3d05d2c50b726616dda1b5",
	} {
		s := newShop()
		execute(t, s.Start(t, single(func(ctx context.Context, t *Turn) error {
			_, err := orchestrator.Once(ctx, t, "mail", func(context.Context, string) (int, error) { return 1, nil },
				&orchestrator.OnceOptions[int]{Args: jsonText(`{"b":[-1.50,1e2,null,true],"a":"€"}`)})
			return err
		}), Options{Effects: orchestrator.Effects{SumKey: []byte(key)}}), Input{})
		if e := s.Effect(t); e.ArgsSum != want {
			t.Errorf("with key %q the sum is %s, want %s", key, e.ArgsSum, want)
		}
	}
}
