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
		bot := newWorld().Start(t, d, Options{})
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
				_, err := newWorld().Start(t, d, o).Execute(t.Context(), "s", Input{Text: "a"}, nil)
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
			bot := newWorld().Start(t, d, Options{Limits: orchestrator.Limits{SettleTimeout: 500 * time.Millisecond}})
			_, err := bot.Execute(t.Context(), "s", Input{Text: "a"}, nil)
			wantErr(t, err, boom)
			if errors.Is(err, orchestrator.ErrIndeterminate) || !strings.Contains(err.Error(), "Retry.Wait") {
				t.Errorf("got %v", err)
			}
			wantRuns(t, bot, 0)
		})
	}
}

// A summarizer that hangs costs its timeout once, then less and less often.
func TestHungSummarizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		bot := newWorld().Start(t, echo(), Options{Compaction: orchestrator.Compaction{
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
	w.Crash(t, d, in)
	bot := w.Start(t, d(nil), Options{})
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
		w.Crash(t, steps, Input{Text: "a", RequestID: "r"})
		bot := worldOf(w.Checkpoints, fast{w.Snapshots}).Start(t, steps(func() { panic("boom") }), Options{})
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
					bot := w.Start(t, d, Options{KeepSnapshots: 1})
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
