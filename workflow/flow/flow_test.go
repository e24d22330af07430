package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// one returns a step that counts its calls and returns v.
func one[T any](calls *int, v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { *calls++; return v, nil }
}

// Y1, Y2, Y3, Y4, Y6, Y25, Y39, Y40, Y68, Y76: the body runs from its top whenever the run goes on, and each step once.
// What a step has returned counts, also null, false, "" and 0.
func TestReplay(t *testing.T) {
	inBubble(t, func(w *world) {
		tops, calls := 0, 0
		w.run(w.store, nil, flow.New("replay", 1, func(r *flow.Run, in string) ([]any, error) {
			tops++
			var all []any
			add := func(v any, err error) {
				if err != nil {
					t.Error(err)
				}
				all = append(all, v)
			}
			add(flow.Step(r, "null", one[any](&calls, nil)))
			add(flow.Step(r, "false", one(&calls, false)))
			for i := range 3 {
				add(nil, r.Sleep(fmt.Sprint("nap", i), time.Hour))
			}
			add(flow.Step(r, "empty", one(&calls, "")))
			add(flow.Step(r, "zero", one(&calls, 0)))
			add(nil, flow.Do(r, "id", func(ctx context.Context) error {
				if flow.StepID(ctx) != r.ID()+"/id" || flow.Attempt(ctx) != 1 {
					t.Error(flow.StepID(ctx), flow.Attempt(ctx))
				}
				return nil
			}))
			return append(all, in), nil
		}))
		began := time.Now()
		id := w.start("replay", "in", nil)
		w.completed(id, `[null,false,null,null,null,"",0,null,"in"]`)
		if d := time.Since(began); d < 3*time.Hour || d > 3*time.Hour+time.Minute {
			t.Errorf("three naps took %v", d)
		}
		if tops != 4 || calls != 4 {
			t.Errorf("the body ran %d times, and its steps %d", tops, calls)
		}
		rows := w.journal(id)
		want := []string{"null", "false", "nap0", "nap1", "nap2", "empty", "zero", "id"}
		if got := names(rows); !slices.Equal(got, want) {
			t.Errorf("journal %q", got)
		}
		for name, st := range rows {
			if st.Completed.Before(st.Started) || st.Outcome != workflow.Done {
				t.Errorf("%s: %+v", name, st)
			}
		}
		if d := rows["nap1"].Until.Sub(rows["nap1"].Started); d != time.Hour {
			t.Errorf("nap1 is for %v", d)
		}
		run := w.get(id)
		if run.Workflow != "replay" || run.Version != 1 || run.RetentionDays != 30 || run.Completed.IsZero() ||
			string(run.Input) != `"in"` || run.Owner != "" {
			t.Errorf("%+v", run)
		}
	})
}

// Y28–Y36: attempts, pauses, exhaustion. Earlier steps are not called again.
func TestRetries(t *testing.T) {
	errNo := errors.New("no")
	for name, c := range map[string]struct {
		opts  []flow.StepOption
		fail  func(n int) error
		calls int
		least []time.Duration // of the pauses
		most  []time.Duration
		text  string
	}{
		"default": {
			fail: func(int) error { return errNo }, calls: 3, text: "step work failed after 3 attempts: no",
			least: []time.Duration{800 * time.Millisecond, 1600 * time.Millisecond},
			most:  []time.Duration{1201 * time.Millisecond, 2401 * time.Millisecond},
		},
		"fixed": {
			opts: []flow.StepOption{flow.Retry(retry.Fixed(5, time.Minute))}, calls: 5,
			fail: func(int) error { return errNo }, text: "step work failed after 5 attempts: no",
			least: slices.Repeat([]time.Duration{time.Minute}, 4),
		},
		"exponential": {
			opts: []flow.StepOption{flow.Retry(retry.Exponential(5, 30*time.Second).Max(time.Minute))}, calls: 5,
			fail: func(int) error { return errNo }, text: "step work failed after 5 attempts: no",
			least: []time.Duration{30 * time.Second, time.Minute, time.Minute, time.Minute},
		},
		"permanent": {
			fail: func(int) error { return retry.Permanent(errNo) }, calls: 1,
			text: "step work failed after 1 attempts: no",
		},
		"retry after": {
			fail: func(n int) error {
				if n == 1 {
					return fmt.Errorf("busy: %w", flow.RetryAfter(errNo, time.Hour))
				}
				return nil
			},
			calls: 2, least: []time.Duration{time.Hour},
		},
		"panic": {
			fail: func(n int) error { panic("boom") }, calls: 3, text: "step work failed after 3 attempts: panic: boom",
		},
		"timeout": {
			opts: []flow.StepOption{flow.Timeout(time.Second), flow.Retry{}}, calls: 1,
			fail: func(int) error { time.Sleep(2 * time.Second); return errNo },
			text: "step work failed after 1 attempts: no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				first, calls := 0, 0
				var at []time.Time
				w.run(w.store, nil, flow.New("retries", 1, func(r *flow.Run, _ any) (any, error) {
					if _, err := flow.Step(r, "first", one(&first, 1)); err != nil {
						return nil, err
					}
					return nil, flow.Do(r, "work", func(ctx context.Context) error {
						calls++
						at = append(at, time.Now())
						if flow.Attempt(ctx) != calls {
							t.Errorf("attempt %d of call %d", flow.Attempt(ctx), calls)
						}
						return c.fail(calls)
					}, c.opts...)
				}))
				run := w.await(w.start("retries", nil, nil))
				if run.Error != c.text || calls != c.calls || first != 1 {
					t.Errorf("%d calls, %d of the first step, %s: %q", calls, first, run.Status, run.Error)
				}
				for i := range c.least {
					pause, most := at[i+1].Sub(at[i]), c.least[i]+time.Second
					if c.most != nil {
						most = c.most[i]
					}
					if pause < c.least[i] || pause > most {
						t.Errorf("pause %d is %v", i, pause)
					}
				}
			})
		})
	}
}

// Y37: an error of the body fails the run at once. So does a panic, and a body that ends its goroutine. A body may do
// what it likes after a step that failed.
func TestBodyEnds(t *testing.T) {
	for name, c := range map[string]struct {
		body func(r *flow.Run) (any, error)
		want string
	}{
		"error":     {func(*flow.Run) (any, error) { return nil, errors.New("no") }, "no"},
		"panic":     {func(*flow.Run) (any, error) { panic("boom") }, "panic: boom"},
		"not JSON":  {func(*flow.Run) (any, error) { return func() {}, nil }, "invalid argument: output: json: unsupported type: func()"},
		"NUL":       {func(*flow.Run) (any, error) { return nil, errors.New("a\x00b") }, "a\uFFFDb"},
		"too large": {func(*flow.Run) (any, error) { return strings.Repeat("x", workflow.MaxValue), nil }, "invalid argument: output: 1048578 bytes of JSON are more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				calls := 0
				w.run(w.store, nil, flow.New("ends", 1, func(r *flow.Run, _ any) (any, error) {
					calls++
					return c.body(r)
				}))
				run := w.await(w.start("ends", nil, nil))
				if run.Status != workflow.Failed || run.Error != c.want || calls != 1 {
					t.Errorf("%d calls, %s: %q", calls, run.Status, run.Error)
				}
			})
		})
	}
}

// A value that no store takes is the end of its step, and of no other.
func TestBadValues(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		w.run(w.store, nil, flow.New("values", 1, func(r *flow.Run, _ any) (n int, err error) {
			for i, v := range []any{func() {}, math.NaN(), strings.Repeat("x", workflow.MaxValue), "a\x00b"} {
				_, err := flow.Step(r, fmt.Sprint(i), one(&calls, v))
				if failed, ok := errors.AsType[*flow.StepError](err); ok && failed.Attempts == 1 {
					n++
				}
			}
			return n, r.Sleep("nap", time.Hour)
		}))
		w.completed(w.start("values", nil, nil), "4")
		if calls != 4 {
			t.Errorf("%d calls", calls)
		}
	})
}

// What a verb refuses is a typed error, and nothing is stored.
func TestBadCalls(t *testing.T) {
	inBubble(t, func(w *world) {
		nop := func(context.Context) error { return nil }
		w.run(w.store, nil, flow.New("calls", 1, func(r *flow.Run, _ any) (n int, err error) {
			for _, err := range []error{
				flow.Do(r, "", nop), flow.Do(r, "a b", nop), flow.Do(r, "a/b", nop),
				flow.Do(r, strings.Repeat("x", 129), nop),
				r.Sleep("long", workflow.MaxDelay+1), r.SleepUntil("far", time.Now().Add(workflow.MaxDelay+time.Hour)),
				second(flow.Wait[any](r, "w", flow.Timeout(-1))), second(flow.Wait[any](r, "w", flow.Event("*"))),
				second(flow.Wait[any](r, "w", flow.Match{"f": func() {}})),
				second(flow.Go(r, "a/b", func(*flow.Run) (int, error) { return 1, nil }).Join()),
			} {
				if errors.Is(err, workflow.ErrInvalid) {
					n++
				} else {
					t.Errorf("refused with %v", err)
				}
			}
			if err := flow.Do(r, "twice", nop); err != nil {
				t.Error(err)
			}
			if err := flow.Do(r, "twice", nop); !errors.Is(err, workflow.ErrInvalid) {
				t.Errorf("a name twice: %v", err)
			}
			if err := flow.Do(r, strings.Repeat("x", 128), nop); err != nil {
				t.Error(err)
			}
			return n, nil
		}))
		id := w.start("calls", nil, nil)
		w.completed(id, "10")
		if n := len(w.journal(id)); n != 3 { // and the sleep that was too far away, which might not be later
			t.Errorf("%d rows", n)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A verb beside another verb, and a verb of a goroutine that the body has left, are errors.
func TestGoroutines(t *testing.T) {
	inBubble(t, func(w *world) {
		left := make(chan error, 1)
		w.run(w.store, nil, flow.New("goroutines", 1, func(r *flow.Run, _ any) (string, error) {
			beside := make(chan error)
			err := flow.Do(r, "slow", func(context.Context) error {
				go func() { beside <- flow.Do(r, "beside", func(context.Context) error { return nil }) }()
				err := <-beside
				if err == nil {
					return errors.New("no error")
				}
				go func() {
					time.Sleep(time.Hour)
					left <- flow.Do(r, "left", func(context.Context) error { return nil })
				}()
				return retry.Permanent(err)
			})
			return err.Error(), nil
		}))
		id := w.start("goroutines", nil, nil)
		if run := w.await(id); !strings.Contains(string(run.Output), "use flow.Go") {
			t.Errorf("%s %s %q", run.Status, run.Output, run.Error)
		}
		if err := <-left; err == nil || len(w.journal(id)) != 1 {
			t.Errorf("a verb after the end: %v", err)
		}
	})
}

// Y5, Y8, Y9, Y10, Y12, Y13, Y14, Y16: waits, matches, the mailbox, timeouts.
func TestWait(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("waits", 1, func(r *flow.Run, _ any) (string, error) {
			v, err := flow.Wait[map[string]any](r, "verify", flow.Match{"user": 42}, flow.Timeout(time.Hour))
			if errors.Is(err, flow.ErrTimeout) {
				return "nobody", nil
			}
			return fmt.Sprint(v["n"]), err
		}))
		answered, silent, early := w.start("waits", 1, nil), w.start("waits", 2, nil), w.start("waits", 3, nil)
		if got := w.signal(early, "verify", map[string]any{"user": 42.0, "n": 7}, "e"); got != workflow.Kept {
			t.Errorf("a signal before the wait is %s", got)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		due := w.get(answered).Due
		for _, c := range []struct {
			payload any
			id      string
			want    workflow.Receipt
		}{
			{map[string]any{"user": "42"}, "a", workflow.Kept},
			{map[string]any{"user": 42, "n": 1}, "b", workflow.Consumed},
			{map[string]any{"user": 42, "n": 2}, "b", workflow.Kept},
		} {
			if got := w.signal(answered, "verify", c.payload, c.id); got != c.want {
				t.Errorf("%v is %s, want %s", c.payload, got, c.want)
			}
			if c.id == "a" && !w.get(answered).Due.Equal(due) {
				t.Error("a signal that does not match has moved the deadline")
			}
		}
		w.completed(answered, `"1"`)
		w.completed(early, `"7"`)
		w.completed(silent, `"nobody"`)
		if rows := w.journal(silent); rows["verify"].Outcome != workflow.TimedOut {
			t.Errorf("%+v", rows)
		}
		if got := w.signal(silent, "verify", nil, ""); got != workflow.Over {
			t.Errorf("a signal to a run that is over is %s", got)
		}
	})
}

// A strict wait ignores what came before it. SignalFirst finds the run that has waited longest.
func TestStrictAndFirst(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("strict", 1, func(r *flow.Run, in int) (int, error) {
			if err := r.Sleep("nap", time.Second/2); err != nil { // until the early signal has come
				return 0, err
			}
			return flow.Wait[int](r, "go", flow.Strict, flow.Match(nil))
		}))
		if _, err := w.SignalFirst(w.Context(), "strict", "go", 1, ""); !errors.Is(err, workflow.ErrNotFound) {
			t.Errorf("none waits: %v", err)
		}
		first := w.start("strict", 1, nil)
		w.signal(first, "go", 5, "early")
		time.Sleep(time.Second)
		second := w.start("strict", 2, nil)
		time.Sleep(time.Second)
		for i, want := range []string{first, second} {
			run, err := w.SignalFirst(w.Context(), "strict", "go", 10+i, fmt.Sprint(i))
			if err != nil || run != want {
				t.Errorf("signal %d went to %s, %v", i, run, err)
			}
			w.completed(want, fmt.Sprint(10+i))
		}
	})
}

// Branches run side by side, sleep and wait each for itself, and are in the journal under their names.
func TestBranches(t *testing.T) {
	inBubble(t, func(w *world) {
		var calls atomic.Int64
		w.run(w.store, nil, flow.New("branches", 1, func(r *flow.Run, _ any) (string, error) {
			nap := func(d time.Duration) func(r *flow.Run) (string, error) {
				return func(r *flow.Run) (string, error) {
					if err := r.Sleep("nap", d); err != nil {
						return "", err
					}
					return flow.Step(r, "work", func(context.Context) (string, error) {
						calls.Add(1)
						return d.String(), nil
					})
				}
			}
			long := flow.Go(r, "long", nap(2*time.Hour))
			short := flow.Go(r, "short", nap(time.Hour))
			word := flow.Go(r, "word", func(r *flow.Run) (string, error) { return flow.Wait[string](r, "word") })
			all, err := flow.All(short, long, word)
			return strings.Join(all, " "), err
		}), flow.New("each", 1, func(r *flow.Run, n int) (sum int, err error) {
			var now, most atomic.Int64
			all, err := flow.Each(r, "item", make([]int, n), 3, func(r *flow.Run, _ int) (int, error) {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				return flow.Step(r, "one", func(ctx context.Context) (int, error) {
					time.Sleep(time.Second)
					if flow.Attempt(ctx) == 1 {
						return 0, errors.New("not yet")
					}
					return 1, nil
				})
			})
			for _, v := range all {
				sum += v
			}
			if most.Load() > 3 {
				t.Errorf("%d at a time", most.Load())
			}
			return sum, err
		}))
		began := time.Now()
		id := w.start("branches", nil, nil)
		time.Sleep(30 * time.Minute)
		w.signal(id, "word", "go", "")
		w.completed(id, `"1h0m0s 2h0m0s go"`)
		if d := time.Since(began); calls.Load() != 2 || d > 2*time.Hour+time.Minute {
			t.Errorf("%d calls in %v", calls.Load(), d)
		}
		rows := w.journal(id)
		if d := rows["long/work"].Started.Sub(rows["long/nap"].Until); d < 0 || d > time.Minute {
			t.Errorf("the long branch went on %v after its deadline", d)
		}
		w.completed(w.start("each", 10, nil), "10")
	})
}

// Two waits of one run: any signal wakes it, and the branch whose wait fits takes the signal.
func TestTwoWaits(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("two", 1, func(r *flow.Run, _ any) ([]string, error) {
			wait := func(r *flow.Run) (string, error) {
				v, err := flow.Wait[string](r, "word", flow.Timeout(time.Hour))
				if errors.Is(err, flow.ErrTimeout) {
					return "late", nil
				}
				return v, err
			}
			return flow.All(flow.Go(r, "a", wait), flow.Go(r, "b", wait))
		}))
		id := w.start("two", nil, nil)
		time.Sleep(time.Minute)
		w.signal(id, "word", "x", "1")
		w.signal(id, "word", "x", "1")
		if run := w.await(id); string(run.Output) != `["x","late"]` && string(run.Output) != `["late","x"]` {
			t.Errorf("%s %s", run.Status, run.Output)
		}
	})
}

// Y50–Y54: cancel and pause end the context of a step at once. An outcome that comes later is kept as Late, and its
// step runs again after Resume.
func TestCancelAndPause(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		var ended []time.Duration
		w.run(w.store, nil, flow.New("stubborn", 1, func(r *flow.Run, _ any) (int, error) {
			return flow.Step(r, "work", func(ctx context.Context) (int, error) {
				calls++
				if flow.Attempt(ctx) != 1 { // what is late counts for nothing
					t.Errorf("attempt %d", flow.Attempt(ctx))
				}
				began := time.Now()
				select {
				case <-ctx.Done():
				case <-time.After(time.Hour):
				}
				ended = append(ended, time.Since(began))
				return calls, nil // it ignores that
			})
		}))
		id := w.start("stubborn", nil, nil)
		time.Sleep(time.Minute)
		receipt, err := w.Pause(w.Context(), id)
		if err != nil || receipt != workflow.Applied {
			t.Error(receipt, err)
		}
		time.Sleep(24 * time.Hour)
		if run := w.get(id); run.Hold != workflow.Paused || calls != 1 || ended[0] > time.Minute+time.Second {
			t.Errorf("%+v: %d calls, %v", run, calls, ended)
		}
		if rows := w.journal(id); rows["work"].Outcome != workflow.Late {
			t.Errorf("%+v", rows)
		}
		if _, err := w.Resume(w.Context(), id); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if receipt, err := w.Cancel(w.Context(), id); err != nil || receipt != workflow.Applied {
			t.Error(receipt, err)
		}
		time.Sleep(time.Minute)
		if run := w.get(id); run.Status != workflow.Cancelled || run.Completed.IsZero() || calls != 2 ||
			ended[1] > time.Minute+time.Second {
			t.Errorf("%+v: %d calls, %v", run, calls, ended)
		}
		if rows := w.journal(id); rows["work"].Outcome != workflow.Late {
			t.Errorf("%+v", rows)
		}
		for _, f := range []func(context.Context, string) (workflow.Receipt, error){w.Cancel, w.Pause, w.Resume} {
			if receipt, err := f(w.Context(), id); receipt != workflow.Over || err != nil {
				t.Error(receipt, err)
			}
		}
		if _, err := w.Cancel(w.Context(), "nobody"); !errors.Is(err, workflow.ErrNotFound) {
			t.Error(err)
		}
	})
}

// Y17, drift: a step that was renamed or moved, a branch that was renamed, a step that is gone, a value that no longer
// decodes. The run is held, nothing runs, and it goes on with the code that fits.
func TestDrift(t *testing.T) {
	type code func(r *flow.Run, work func(name string)) error
	work := func(r *flow.Run, names ...string) code {
		return func(r *flow.Run, work func(string)) error {
			for _, n := range names {
				work(n)
			}
			return r.Sleep("nap", time.Hour)
		}
	}
	for name, c := range map[string]struct {
		old, changed code
		want         string
	}{
		"renamed": {work(nil, "a", "b"), work(nil, "a", "c"), `at place 1 the code calls run "c", and the journal has run "b" at place 1`},
		"moved":   {work(nil, "a", "b"), work(nil, "b", "a"), `at place 0 the code calls run "b", and the journal has run "b" at place 1`},
		"added":   {work(nil, "a"), work(nil, "new", "a"), `at place 0 the code calls run "new", and the journal has run "a" at place 0`},
		"gone":    {work(nil, "a", "b"), work(nil, "a"), `at place 1 the code calls sleep "nap", and the journal has sleep "nap" at place 2`},
		"ends": {work(nil, "a", "b"), func(r *flow.Run, work func(string)) error {
			work("a")
			return nil
		}, `at place 1 the code ends, and the journal has run "b" at place 1`},
		"another kind": {work(nil, "a"), work(nil, "a", "nap"), `at place 1 the code calls run "nap", and the journal has sleep "nap" at place 1`},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				calls := 0
				with := func(f code) *flow.Workflow[any, any] {
					return flow.New("drift", 1, func(r *flow.Run, _ any) (any, error) {
						return nil, f(r, func(name string) {
							if _, err := flow.Step(r, name, one(&calls, name)); err != nil {
								t.Error(err)
							}
						})
					})
				}
				_, stop := w.run(w.store, nil, with(c.old))
				id := w.start("drift", nil, nil)
				time.Sleep(time.Minute)
				stop()
				before := calls
				_, stop = w.run(w.store, nil, with(c.changed))
				time.Sleep(2 * time.Hour)
				stop()
				run := w.get(id)
				if run.Hold != workflow.Drifted || !strings.HasSuffix(run.Error, c.want) || calls != before {
					t.Errorf("%s %q, %q, %d calls more", run.Status, run.Hold, run.Error, calls-before)
				}
				w.run(w.store, nil, with(c.old))
				if _, err := w.Resume(w.Context(), id); err != nil {
					t.Error(err)
				}
				w.completed(id, "null")
			})
		})
	}
}

// A value or an input that no longer decodes holds the run, and fails nothing.
func TestDecode(t *testing.T) {
	inBubble(t, func(w *world) {
		_, stop := w.run(w.store, nil, flow.New("decode", 1, func(r *flow.Run, _ string) (any, error) {
			n := 0
			if _, err := flow.Step(r, "a", one(&n, "text")); err != nil {
				return nil, err
			}
			return nil, r.Sleep("nap", time.Hour)
		}))
		value, input := w.start("decode", "text", nil), w.start("decode", 5, nil)
		time.Sleep(time.Minute)
		stop()
		w.run(w.store, nil, flow.New("decode", 1, func(r *flow.Run, _ string) (any, error) {
			n := 0
			_, err := flow.Step(r, "a", one(&n, 5))
			return nil, err
		}))
		time.Sleep(2 * time.Hour)
		for _, id := range []string{value, input} {
			if run := w.get(id); run.Hold != workflow.Drifted || !strings.Contains(run.Error, "does not decode") {
				t.Errorf("%s %q %q", run.Status, run.Hold, run.Error)
			}
		}
	})
}

// Runs in flight keep the old way, and new ones have the change.
func TestPatch(t *testing.T) {
	inBubble(t, func(w *world) {
		var calls []string
		step := func(r *flow.Run, name string) {
			_ = flow.Do(r, name, func(context.Context) error { calls = append(calls, name); return nil })
		}
		_, stop := w.run(w.store, nil, flow.New("patched", 1, func(r *flow.Run, _ any) (any, error) {
			step(r, "work")
			return nil, r.Sleep("nap", time.Hour)
		}))
		old := w.start("patched", nil, nil)
		time.Sleep(time.Minute)
		stop()
		w.run(w.store, nil, flow.New("patched", 1, func(r *flow.Run, _ any) (bool, error) {
			patched := flow.Patch(r, "check-first")
			if patched {
				step(r, "check")
			}
			step(r, "work")
			return patched, r.Sleep("nap", time.Hour)
		}))
		fresh := w.start("patched", nil, nil)
		w.completed(old, "false")
		w.completed(fresh, "true")
		if want := []string{"work", "check", "work"}; !slices.Equal(calls, want) {
			t.Errorf("%q", calls)
		}
	})
}

// Y45–Y49: a run keeps its version, and waits until a process has it. Two versions drain side by side.
func TestVersions(t *testing.T) {
	inBubble(t, func(w *world) {
		version := func(v int) *flow.Workflow[any, int] {
			return flow.New("versions", v, func(r *flow.Run, _ any) (int, error) {
				return v, r.Sleep("nap", time.Hour)
			})
		}
		_, stop := w.run(w.store, nil, version(1))
		time.Sleep(time.Second)
		one := w.start("versions", nil, nil)
		time.Sleep(time.Second)
		_, stop2 := w.run(w.process(), nil, version(2))
		time.Sleep(time.Second)
		two := w.start("versions", nil, nil)
		stop()
		time.Sleep(2 * time.Hour)
		if run := w.get(one); run.Status != workflow.Running || run.Hold != "" {
			t.Errorf("%+v", run)
		}
		w.completed(two, "2")
		stop2()
		_, stop = w.run(w.store, nil, version(1), version(2))
		w.completed(one, "1")
		stop()

		// For days nobody knows the workflow. It is held, and goes on when somebody does.
		lost := w.start("versions", nil, &workflow.StartOptions{Version: 3})
		_, stop = w.run(w.store, nil, version(1))
		time.Sleep(time.Second)
		w.completed(w.start("versions", nil, nil), "1") // the processes with version 2 have ended
		time.Sleep(25 * time.Hour)
		if run := w.get(lost); run.Hold != workflow.HoldUnknown || !strings.Contains(run.Error, `version 3 of workflow "versions"`) {
			t.Errorf("%+v", run)
		}
		stop()
		w.run(w.store, nil, version(3))
		w.completed(lost, "3")
	})
}

// Two definitions of one name and version panic, and so does a definition that no store takes.
func TestDefinitions(t *testing.T) {
	for name, f := range map[string]func(){
		"twice": func() {
			def := flow.New("a", 1, func(*flow.Run, any) (any, error) { return nil, nil })
			flow.NewEngine(new(workflow.Memory), nil, def, def)
		},
		"name":    func() { flow.New("A", 1, func(*flow.Run, any) (any, error) { return nil, nil }) },
		"version": func() { flow.New("a", 0, func(*flow.Run, any) (any, error) { return nil, nil }) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

// Options that cannot be meant are refused, all at once.
func TestBadOptions(t *testing.T) {
	defer func() {
		const want = "flow: options: Workers is negative; Writers is negative; Poll is negative; " +
			"DeadAfter is negative; Grace is negative; MostCrashes is negative; Retry.Attempts is negative; Lease is longer than 8784h0m0s"
		if text := recover(); text != want {
			t.Errorf("panic %v, want %s", text, want)
		}
	}()
	flow.NewEngine(new(workflow.Memory), &flow.Options{
		Workers: -1, Writers: -1, Poll: -1, DeadAfter: -1, Lease: workflow.MaxDelay + 1, Grace: -1, MostCrashes: -1,
		Retry: retry.Policy{Attempts: -1},
	})
}

// Y55–Y57: 30 days, of the definition, of the start, and the cap.
func TestRetention(t *testing.T) {
	inBubble(t, func(w *world) {
		w.store.MaxAge = 3 * 24 * time.Hour
		def := flow.New("kept", 1, func(*flow.Run, any) (any, error) { return nil, nil }, flow.Keep(1))
		e, _ := w.run(w.store, nil, def)
		c := workflow.NewClient(e.Front())
		for _, o := range []struct{ ask, want int }{{0, 1}, {2, 2}, {1000, 3}} {
			h, err := def.Start(w.Context(), c, nil, &workflow.StartOptions{RetentionDays: o.ask})
			if err != nil {
				t.Fatal(err)
			}
			if got := w.get(h.ID).RetentionDays; got != o.want {
				t.Errorf("%d days, want %d", got, o.want)
			}
			if _, err := h.Result(w.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Duration(o.want)*24*time.Hour - time.Hour)
			w.get(h.ID)
			time.Sleep(2 * time.Hour)
			if _, err := w.Get(w.Context(), h.ID); !errors.Is(err, workflow.ErrNotFound) {
				t.Errorf("after its days: %v", err)
			}
		}
	})
}
