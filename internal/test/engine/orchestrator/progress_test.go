package orchestrator_test

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Callers with deadlines shorter than a step do not repeat the step for ever: work without progress is an attempt, also
// if the caller ends it.
func TestShortDeadlinesPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := 0
		d := Def{Name: "slow", Intents: Intents{"step": {Run: func(ctx context.Context, _ *Turn) error {
			ran++
			<-ctx.Done()
			return ctx.Err()
		}}}}
		bot := newWorld().start(t, d, Options{})
		var err error
		for range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = bot.Execute(ctx, "s", Input{Text: "a", RequestID: "r"}, nil)
			cancel()
		}
		wantErr(t, err, orchestrator.ErrParked)
		if ran != 5 {
			t.Errorf("the step ran %d times", ran)
		}
	})
}

// A caller who leaves before anything has run costs no attempt.
func TestLeavingEarlyIsNoAttempt(t *testing.T) {
	stages(t, func(s *stage) {
		in := Input{Text: "a", RequestID: "r"}
		s.crash(in)
		p := s.process(Options{}, nil)
		before := wantRuns(s, p.Bot, 1)[0].Attempt
		ctx, cancel := context.WithCancel(t.Context())
		p.next("Adopt", func(send func() error) error { defer cancel(); return send() })
		_, err := p.Execute(ctx, scribeKey.Session, in, nil)
		wantErr(s, err, context.Canceled, orchestrator.ErrIndeterminate)
		if run := wantRuns(s, p.Bot, 1)[0]; run.Attempt != before || run.Status != snapshot.Waiting {
			s.Errorf("attempt %d, then %d, %s", before, run.Attempt, run.Status)
		}
		p.recovers("settled")
		s.ends("a")
	})
}

// TurnTimeout counts from the first function of the bot.
func TestTurnTimeoutBoundsBegin(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, set := range map[string]func(*Def, *Options){
		"begin": func(d *Def, _ *Options) { d.Begin = func(ctx context.Context, _ *Turn) error { return hang(ctx) } },
		"history": func(_ *Def, o *Options) {
			o.History = func(ctx context.Context, _ string) ([]message.Message, error) { return nil, hang(ctx) }
		},
		"intent": func(d *Def, _ *Options) {
			d.Intents = Intents{"echo": {Run: func(ctx context.Context, _ *Turn) error { return hang(ctx) }}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, o := echo(), Options{Limits: orchestrator.Limits{TurnTimeout: time.Minute}}
				set(&d, &o)
				start := time.Now()
				_, err := newWorld().start(t, d, o).Execute(t.Context(), "s", Input{Text: "a"}, nil)
				wantErr(t, err, context.DeadlineExceeded)
				if errors.Is(err, orchestrator.ErrIndeterminate) || time.Since(start) != time.Minute {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
}

// A policy that hangs, panics or ends its goroutine fails the intent, and not the caller.
func TestRetryWaitMisbehaves(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	for name, wait := range map[string]func(int) time.Duration{
		"hangs":   func(int) time.Duration { <-end; return 0 },
		"panics":  func(int) time.Duration { panic("no") },
		"goexits": func(int) time.Duration { runtime.Goexit(); return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			boom := errors.New("boom")
			d := echo()
			d.Intents["echo"] = Intent{
				Run:   func(context.Context, *Turn) error { return boom },
				Retry: retry.Policy{Attempts: 3, Wait: wait},
			}
			bot := newWorld().start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 500 * time.Millisecond}})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			wantErr(t, err, boom)
			if errors.Is(err, orchestrator.ErrIndeterminate) || !strings.Contains(err.Error(), "Retry.Wait") {
				t.Errorf("got %v", err)
			}
			wantRuns(t, bot, 0)
		})
	}
}

// A model may say text that no store accepts. The engine cleans the text before anything else.
func TestReasonsAreCleaned(t *testing.T) {
	const bad = "a\x00b\xff"
	backends(t, func(t *testing.T, w world) {
		d := Def{
			Name: "noisy", Iterate: true,
			Route: func(context.Context, *Turn) (Next, error) {
				n := orchestrator.To("work")
				n.Reason = bad
				return n, nil
			},
			Intents: Intents{"work": {Run: func(_ context.Context, t *Turn) error {
				t.State.A = t.Feedback
				return nil
			}}},
			Evaluate: func(_ context.Context, t *Turn) (Next, error) {
				t.Feedback = bad
				if t.Iteration == 0 {
					return Next{}, nil
				}
				n := orchestrator.End
				n.Reason = bad
				return n, nil
			},
		}
		res := execute(t, w.start(t, d, Options{}), Input{Text: "a", RequestID: "r"})
		if res.State.A != "a?b?" || res.Steps[0].Next.Reason != "a?b?" {
			t.Errorf("%q, %+v", res.State.A, res.Steps)
		}
	})
}

// A summarizer that hangs costs its timeout once, then less and less often.
func TestHungSummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		bot := newWorld().start(t, echo(), Options{Compaction: orchestrator.Compaction{
			After: 1, Keep: 1, Timeout: time.Minute,
			Run: func(ctx context.Context, _ orchestrator.Range) (orchestrator.Usage, error) {
				calls++
				<-ctx.Done()
				return orchestrator.Usage{}, ctx.Err()
			},
		}})
		start := time.Now()
		for range 100 {
			execute(t, bot, Input{Text: "a"})
			time.Sleep(time.Second)
		}
		if took := time.Since(start); calls > 2 || took > 4*time.Minute {
			t.Errorf("100 turns took %v, with %d calls", took, calls)
		}
		time.Sleep(2 * time.Hour)
		before := calls
		execute(t, bot, Input{Text: "a"})
		if calls != before+1 {
			t.Error("it is never tried again")
		}
	})
}

// Definition.Begin has run for a run in flight. It does not run again on the same state.
func TestBeginRunsOnce(t *testing.T) {
	w := newWorld()
	begun := 0
	d := func(die func()) Def {
		d := steps(die)
		d.Begin = func(context.Context, *Turn) error { begun++; return nil }
		return d
	}
	in := Input{Text: "a", RequestID: "r"}
	w.crash(t, d, in)
	bot := w.start(t, d(nil), Options{})
	if res := execute(t, bot, in); res.Turn != 0 || begun != 1 {
		t.Errorf("%+v; Begin ran %d times", res, begun)
	}
	execute(t, bot, Input{Text: "b", RequestID: "q"})
	if begun != 2 {
		t.Errorf("Begin ran %d times for two runs", begun)
	}
}

// The store's clock counts the pause before a run is tried again. A process's clock may be wrong by hours.
func TestPauseByStoreClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.crash(t, steps, Input{Text: "a", RequestID: "r"})
		bot := world{w.checkpoints, fast{w.snapshots}}.start(t, steps(func() { panic("boom") }), Options{})
		if _, err := bot.Recover(t.Context(), "s"); err == nil {
			t.Fatal("it does not fail")
		}
		if got := recoverable(t, bot, true); len(got) != 0 {
			t.Errorf("due at once: %q", got)
		}
		time.Sleep(11 * time.Second)
		if got := recoverable(t, bot, false); !slices.Equal(got, []string{"s"}) {
			t.Errorf("not due after its pause: %q", got)
		}
	})
}

// fast is a snapshot store whose clock is hours ahead of the process's clock.
type fast struct{ snapshot.Store }

func (f fast) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range f.Store.Runs(ctx, q) {
			r.NotBefore = r.NotBefore.Add(5 * time.Hour)
			if !yield(r, err) {
				return
			}
		}
	}
}

// Two processes that loop over one session, without a Locker, both make progress.
func TestFairness(t *testing.T) {
	for name, takes := range map[string]time.Duration{
		"short turns": 2 * time.Millisecond,
		"long turns":  700 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				lasts := time.Minute
				if takes < 10*time.Millisecond && !soak() {
					lasts = 15 * time.Second // has thousands of turns
				}
				ctx, cancel := context.WithTimeout(t.Context(), lasts)
				defer cancel()
				d := echo()
				d.Intents["echo"] = Intent{Run: func(context.Context, *Turn) error { time.Sleep(takes); return nil }}
				turns := make([]int, 2)
				longest := make([]time.Duration, 2)
				var loops sync.WaitGroup
				for i := range turns {
					bot := w.start(t, d, Options{KeepSnapshots: 1})
					loops.Go(func() {
						for ctx.Err() == nil {
							start := time.Now()
							if _, err := bot.Execute(ctx, "s", Input{Text: "x"}, nil); err == nil {
								turns[i]++
							} else if ctx.Err() == nil {
								t.Error(err)
							}
							longest[i] = max(longest[i], time.Since(start))
						}
					})
				}
				loops.Wait()
				t.Logf("turns %v, longest wait %v", turns, longest)
				if less := min(turns[0], turns[1]); less*4 < turns[0]+turns[1] ||
					max(longest[0], longest[1]) > 10*time.Second {
					t.Errorf("turns %v, longest wait %v", turns, longest)
				}
			})
		})
	}
}

// An owner that loses its session while it begins a run again does not begin the run.
func TestRenewedFenceIsLost(t *testing.T) {
	stages(t, func(s *stage) {
		boom := errors.New("boom")
		in := Input{Text: "a", RequestID: "r"}
		first := s.process(Options{}, func(context.Context, *Turn) error { return boom })
		first.from("Delete", requestLost)
		first.begin(in).fails(boom)
		p := s.process(Options{}, nil)
		pass := func(send func() error) error { return send() }
		p.next("Claim", pass, func(send func() error) error {
			c, err := seize(t.Context(), s.checkpoints, scribeKey, "another", time.Minute)
			if err == nil {
				err = s.checkpoints.Mark(t.Context(), c.Lease, checkpoint.Marks{Release: true})
			}
			return errors.Join(err, send())
		})
		e := p.begin(in)
		s.await(e.done)
		wantErr(s, e.err, lock.ErrFenced)
		s.ends()
	})
}
