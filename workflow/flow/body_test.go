package flow_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A run that was started here knows no clock of the store yet. It wakes in time all the same.
func TestSleepUntilHere(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("until", 1, func(r *flow.Run, at time.Time) (any, error) {
			return nil, r.SleepUntil("nap", at)
		})
		e, _ := w.run(w.store, nil, def)
		time.Sleep(time.Minute)
		at := time.Now().Add(5 * time.Second)
		h, err := def.Start(w.Context(), workflow.NewClient(e.Front()), at, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(w.Context()); err != nil {
			t.Error(err)
		}
		if late := time.Since(at); late < 0 || late > 2*time.Second {
			t.Errorf("it went on %v after its deadline", late)
		}
	})
}

// A hostile error has methods that panic, or that say yes to all.
type hostile struct{ yes bool }

func (h *hostile) Error() string {
	if h.yes {
		return "yes"
	}
	panic("Error")
}

func (h *hostile) Is(error) bool {
	if h.yes {
		return true
	}
	panic("Is")
}

func (h *hostile) As(any) bool {
	if h.yes {
		return false
	}
	panic("As")
}

func (h *hostile) Unwrap() error {
	if h.yes {
		return nil
	}
	panic("Unwrap")
}

type loud struct{}

func (loud) String() string { panic("String") }

func (loud) MarshalJSON() ([]byte, error) { panic("MarshalJSON") }

// What methods of a program's errors and values do ends no process, and decides nothing.
func TestHostile(t *testing.T) {
	for name, body := range map[string]func(r *flow.Run) (any, error){
		"body panics": func(*flow.Run) (any, error) { return nil, new(hostile) },
		"body yes":    func(*flow.Run) (any, error) { return nil, &hostile{yes: true} },
		"step panics": func(r *flow.Run) (any, error) {
			return nil, flow.Do(r, "a", func(context.Context) error { return new(hostile) })
		},
		"step yes": func(r *flow.Run) (any, error) {
			return nil, flow.Do(r, "a", func(context.Context) error { return &hostile{yes: true} })
		},
		"value":       func(*flow.Run) (any, error) { return loud{}, nil },
		"panic":       func(*flow.Run) (any, error) { panic(loud{}) },
		"panic error": func(*flow.Run) (any, error) { panic(new(hostile)) },
		"step value": func(r *flow.Run) (any, error) {
			return flow.Step(r, "a", func(context.Context) (any, error) { return loud{}, nil })
		},
		"branch": func(r *flow.Run) (any, error) {
			return flow.Go(r, "b", func(*flow.Run) (any, error) { panic(new(hostile)) }).Join()
		},
		"branch error": func(r *flow.Run) (any, error) {
			return flow.All(flow.Go(r, "b", func(*flow.Run) (any, error) { return nil, new(hostile) }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.run(w.store, nil, flow.New("hostile", 1, func(r *flow.Run, _ any) (any, error) { return body(r) }))
				id := w.start("hostile", nil, nil)
				time.Sleep(time.Hour)
				if run := w.get(id); run.Status != workflow.Failed || run.Error == "" {
					t.Errorf("%s %q %q", run.Status, run.Hold, run.Error)
				}
			})
		})
	}
}

// A deferred function runs whenever the run is given back. A verb in it is refused then, and calls nothing. At the real
// end of the body it is a verb like others.
func TestDeferredVerbs(t *testing.T) {
	inBubble(t, func(w *world) {
		cleanups, pays := 0, 0
		var refused []error
		w.run(w.store, nil, flow.New("deferred", 1, func(r *flow.Run, _ any) (n int, err error) {
			defer func() {
				if err := flow.Do(r, "cleanup", func(context.Context) error { cleanups++; return nil }); err != nil {
					refused = append(refused, err)
				}
				flow.Patch(r, "patch")
			}()
			if err := r.Sleep("nap", time.Hour); err != nil {
				return 0, err
			}
			return flow.Step(r, "pay", one(&pays, 7))
		}))
		id := w.start("deferred", nil, nil)
		w.completed(id, "7")
		if cleanups != 1 || pays != 1 || len(refused) != 1 || !errors.Is(refused[0], workflow.ErrInvalid) {
			t.Errorf("%d cleanups, %d pays, refused %v", cleanups, pays, refused)
		}
		if n := len(w.journal(id)); n != 4 {
			t.Errorf("%d rows", n)
		}
	})
}

// A verb of a goroutine that the body has left is an error, also while the run waits for branches.
func TestLeftBehindBranches(t *testing.T) {
	inBubble(t, func(w *world) {
		left := make(chan error, 1)
		calls := 0
		w.run(w.store, nil, flow.New("left", 1, func(r *flow.Run, _ any) (any, error) {
			flow.Go(r, "slow", func(r *flow.Run) (any, error) {
				return nil, flow.Do(r, "work", func(context.Context) error { time.Sleep(time.Minute); return nil })
			})
			go func() {
				time.Sleep(time.Second)
				left <- flow.Do(r, "late", func(context.Context) error { calls++; return nil })
			}()
			return nil, nil
		}))
		id := w.start("left", nil, nil)
		w.completed(id, "null")
		if err := <-left; !errors.Is(err, workflow.ErrInvalid) || calls != 0 || len(w.journal(id)) != 1 {
			t.Errorf("%d calls, %v", calls, err)
		}
	})
}

// A branch that ends its goroutine is an error of Join, like one that panics.
func TestBranchEndsGoroutine(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("exits", 1, func(r *flow.Run, join bool) (any, error) {
			f := flow.Go(r, "b", func(r *flow.Run) (int, error) {
				return flow.Step(r, "a", func(context.Context) (int, error) { runtime.Goexit(); return 1, nil })
			})
			if !join {
				return 1, nil
			}
			_, err := f.Join()
			return nil, fmt.Errorf("joined: %w", err)
		}))
		id := w.start("exits", true, nil)
		if run := w.await(id); !strings.HasPrefix(run.Error, "joined: ") {
			t.Errorf("%s %q", run.Status, run.Error)
		}
		w.completed(w.start("exits", false, nil), "1")
	})
}

// The Run of the body in a branch, and Join in another branch, are errors.
func TestWrongRun(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("wrong", 1, func(r *flow.Run, _ any) (bool, error) {
			a := flow.Go(r, "a", func(*flow.Run) (any, error) {
				time.Sleep(time.Second)
				return nil, flow.Do(r, "of-the-body", func(context.Context) error { return nil })
			})
			c := flow.Go(r, "c", func(b *flow.Run) (any, error) { time.Sleep(time.Hour); return nil, nil })
			b := flow.Go(r, "b", func(*flow.Run) (any, error) {
				time.Sleep(time.Second)
				return c.Join()
			})
			_, err := a.Join()
			_, err2 := b.Join()
			_, err3 := c.Join()
			return errors.Is(err, workflow.ErrInvalid) && errors.Is(err2, workflow.ErrInvalid) && err3 == nil, nil
		}))
		w.completed(w.start("wrong", nil, nil), "true")
	})
}

// A body that gives up because its context ended for a deploy has not failed: another process goes on.
func TestBodyHeedsDeploy(t *testing.T) {
	inBubble(t, func(w *world) {
		calls, bodies := 0, 0
		def := flow.New("heeds", 1, func(r *flow.Run, _ any) (int, error) {
			bodies++
			if bodies == 1 {
				if _, err := flow.Step(r, "a", one(&calls, 1)); err != nil {
					return 0, err
				}
				<-r.Context().Done()
				return 0, r.Context().Err()
			}
			return flow.Step(r, "a", one(&calls, 1))
		})
		_, stop := w.run(w.process(), nil, def)
		id := w.start("heeds", nil, nil)
		time.Sleep(time.Second)
		stop()
		if run := w.get(id); run.Status != workflow.Running || run.Hold != "" || run.Owner != "" {
			t.Fatalf("%+v", run)
		}
		w.run(w.process(), nil, def)
		w.completed(id, "1")
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

// An outcome that was not written yet when the run was cancelled is kept as late.
func TestLateOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		end, untold bool
	}{"at the end": {end: true}, "before a step": {}, "untold": {untold: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s, pause := workflow.Store(w.store), time.Minute
				if c.untold { // the next write says that the run is lost
					s, pause = deafToRuns{w.store}, 2*time.Second
				}
				w.run(s, nil, flow.New("late", 1, func(r *flow.Run, _ any) (any, error) {
					n := 0
					if _, err := flow.Step(r, "a", one(&n, 1)); err != nil {
						return nil, err
					}
					time.Sleep(pause) // the run is cancelled meanwhile
					if c.end {
						return nil, nil
					}
					return flow.Step(r, "b", one(&n, 1))
				}))
				id := w.start("late", nil, nil)
				time.Sleep(time.Second)
				if _, err := w.Cancel(w.Context(), id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				rows := w.journal(id)
				if got := strings.Join(names(rows), " "); got != "a" || rows["a"].Outcome != workflow.Late {
					t.Errorf("%+v", rows)
				}
			})
		})
	}
}

// Eager makes failures durable too.
func TestEager(t *testing.T) {
	inBubble(t, func(w *world) {
		var id string
		w.run(w.store, &flow.Options{Eager: true}, flow.New("eager", 1, func(r *flow.Run, _ any) (any, error) {
			time.Sleep(time.Second)
			for _, name := range []string{"good", "bad"} {
				_ = flow.Do(r, name, func(context.Context) error {
					if name == "bad" {
						return retry.Permanent(errors.New("no"))
					}
					return nil
				})
				if _, ok := w.journal(id)[name]; !ok {
					t.Errorf("%s is not durable", name)
				}
			}
			return nil, nil
		}))
		id = w.start("eager", nil, nil)
		w.completed(id, "null")
	})
}

// If a branch has drifted, the others begin nothing more.
func TestDriftStopsBranches(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		def := func(first string) *flow.Workflow[any, any] {
			return flow.New("stops", 1, func(r *flow.Run, _ any) (any, error) {
				a := flow.Go(r, "a", func(r *flow.Run) (any, error) {
					if err := flow.Do(r, first, func(context.Context) error { return nil }); err != nil {
						return nil, err
					}
					return nil, r.Sleep("nap", time.Hour)
				})
				b := flow.Go(r, "b", func(r *flow.Run) (any, error) {
					time.Sleep(time.Second)
					if err := r.Sleep("nap", time.Hour); err != nil {
						return nil, err
					}
					return nil, flow.Do(r, "work", func(context.Context) error { calls++; return nil })
				})
				return flow.All(a, b)
			})
		}
		_, stop := w.run(w.store, nil, def("x"))
		id := w.start("stops", nil, nil)
		time.Sleep(time.Minute)
		stop()
		w.run(w.store, nil, def("y"))
		time.Sleep(2 * time.Hour)
		if run := w.get(id); run.Hold != workflow.Drifted || calls != 0 {
			t.Errorf("%s %q, %d calls", run.Status, run.Hold, calls)
		}
	})
}

// Resume right after Pause: the former stay in this process is told, and writes nothing.
func TestTwoStays(t *testing.T) {
	inBubble(t, func(w *world) {
		var calls, ended atomic.Int64
		def := flow.New("stays", 1, func(r *flow.Run, _ any) (int64, error) {
			return flow.Step(r, "work", func(ctx context.Context) (int64, error) {
				n := calls.Add(1)
				select {
				case <-ctx.Done():
					ended.Add(1)
				case <-time.After(time.Minute):
				}
				return n, nil
			})
		})
		s := deafToRuns{w.store}
		e, stop := w.run(s, nil, def)
		time.Sleep(time.Second)
		h, err := def.Start(w.Context(), workflow.NewClient(e.Front()), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan int64, 1)
		go func() {
			v, err := h.Result(w.Context())
			if err != nil {
				t.Error(err)
			}
			got <- v
		}()
		synctest.Wait()
		_, err1 := w.Pause(w.Context(), h.ID)
		_, err2 := w.Resume(w.Context(), h.ID)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if calls.Load() != 2 || ended.Load() != 1 {
			t.Errorf("%d calls, %d ended", calls.Load(), ended.Load())
		}
		if v := <-got; v != 2 {
			t.Errorf("result %d", v)
		}
		began := time.Now()
		stop()
		if d := time.Since(began); d > 0 {
			t.Errorf("Run ended after %v", d)
		}
	})
}

// It loses the notes that a run was lost.
type deafToRuns struct{ *workflow.Memory }

func (s deafToRuns) Listen(ctx context.Context, hear func(workflow.Note)) {
	s.Memory.Listen(ctx, func(n workflow.Note) {
		if n.Run == "" {
			hear(n)
		}
	})
}

// Run ends although the store is away: what is queued is not given back then.
func TestEndWithoutStore(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("queued", 1, func(r *flow.Run, _ any) (any, error) {
			return nil, flow.Do(r, "long", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
		first, second := w.process(), w.process()
		w.run(first, nil, def)
		for range 3 {
			w.start("queued", nil, nil)
		}
		time.Sleep(10 * time.Second)
		_, stop := w.run(second, &flow.Options{Workers: 1}, def)
		time.Sleep(10 * time.Second)
		first.cut(true)
		time.Sleep(6 * time.Second)
		owned := 0
		for r, err := range w.Runs(w.Context(), workflow.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Owner != "" {
				owned++
			}
		}
		if owned < 2 {
			t.Fatalf("%d runs owned", owned)
		}
		second.cut(true)
		began := time.Now()
		ended := make(chan struct{})
		go func() { stop(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(time.Hour):
			t.Error("Run does not end")
			second.cut(false)
			<-ended
		}
		if d := time.Since(began); d > time.Minute {
			t.Errorf("Run ended after %v", d)
		}
		first.cut(false)
	})
}

// An engine with more workers than a claim takes claims nevertheless.
func TestManyWorkers(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("one", 1, func(*flow.Run, any) (any, error) { return nil, nil })
		w.run(w.store, &flow.Options{Workers: 2 * workflow.MaxBatch}, def)
		id := w.start("one", nil, nil)
		time.Sleep(time.Hour)
		if run := w.get(id); run.Status != workflow.Completed {
			t.Errorf("%+v", run)
		}
	})
}

// A signal that another branch has taken before a strict wait began is not for that wait, also after a crash.
func TestStrictBesideBranch(t *testing.T) {
	inBubble(t, func(w *world) {
		var crashed atomic.Bool
		def := flow.New("beside", 1, func(r *flow.Run, _ any) (any, error) {
			a := flow.Go(r, "a", func(r *flow.Run) (int, error) {
				time.Sleep(time.Second) // a is second after the crash
				if crashed.Load() {
					time.Sleep(time.Minute)
				}
				v, err := flow.Wait[int](r, "first", flow.Event("go"))
				time.Sleep(time.Hour)
				return v, err
			})
			b := flow.Go(r, "b", func(r *flow.Run) (int, error) {
				time.Sleep(2 * time.Second)
				return flow.Wait[int](r, "second", flow.Event("go"), flow.Strict)
			})
			return flow.All(a, b)
		})
		p := w.process()
		id := w.start("beside", nil, nil)
		w.signal(id, "go", 1, "1")
		w.run(p, nil, def)
		time.Sleep(10 * time.Second)
		p.cut(true)
		crashed.Store(true)
		w.run(w.process(), nil, def)
		time.Sleep(2 * time.Hour)
		w.signal(id, "go", 2, "2")
		w.completed(id, "[1,2]")
	})
}

// A cutOff database cuts off each transaction at its commit.
type cutOff struct{}

func (cutOff) WriteTx(_ context.Context, f func(tx any) (workflow.Entry, error)) (verdict, err error) {
	if _, err := f(nil); err != nil {
		return nil, err
	}
	return nil, errCut
}

// A step whose transaction is cut off again and again is tried again at ever longer intervals, whatever its policy.
func TestStepTxCutOff(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		w.run(w.store, nil, flow.New("cut", 1, func(r *flow.Run, _ any) (any, error) {
			return flow.StepTx(r, "tx", cutOff{}, func(context.Context, any) (int, error) {
				calls++
				return 1, nil
			}, flow.Retry{})
		}))
		id := w.start("cut", nil, nil)
		time.Sleep(time.Hour)
		if run := w.get(id); run.Status != workflow.Running || run.Hold != "" || calls < 60 || calls > 70 {
			t.Errorf("%d calls, %+v", calls, run)
		}
	})
}

// A refusing database refuses each transaction at its commit.
type refusing struct{}

func (refusing) WriteTx(_ context.Context, f func(tx any) (workflow.Entry, error)) (verdict, err error) {
	if _, err := f(nil); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: no such parent", workflow.ErrAborted)
}

// A transaction that the database refuses is a failed attempt.
func TestStepTxRefused(t *testing.T) {
	inBubble(t, func(w *world) {
		calls := 0
		w.run(w.store, nil, flow.New("refused", 1, func(r *flow.Run, _ any) (any, error) {
			return flow.StepTx(r, "tx", refusing{}, func(context.Context, any) (int, error) {
				calls++
				return 1, nil
			})
		}))
		id := w.start("refused", nil, nil)
		run := w.await(id)
		if run.Status != workflow.Failed || calls != 3 {
			t.Errorf("%d calls, %+v", calls, run)
		}
		if st := w.journal(id)["tx"]; st.Outcome != workflow.Broken || st.Attempts != 3 ||
			!strings.Contains(st.Error, "no such parent") {
			t.Errorf("journal has %+v", st)
		}
	})
}

// A sleep that was refused because its deadline was too far away is refused in each pass, also when it is near.
func TestSleepUntilFarAway(t *testing.T) {
	inBubble(t, func(w *world) {
		far := time.Now().Add(workflow.MaxDelay + time.Hour)
		var errs []string
		w.run(w.store, nil, flow.New("far", 1, func(r *flow.Run, _ any) (string, error) {
			err := r.SleepUntil("far", far)
			if !errors.Is(err, workflow.ErrInvalid) {
				return "", errors.Join(err, errors.New("not refused"))
			}
			errs = append(errs, err.Error())
			return "awake", r.Sleep("near", 2*time.Hour)
		}))
		w.completed(w.start("far", nil, nil), `"awake"`)
		if len(errs) != 2 || errs[0] != errs[1] {
			t.Errorf("refused with %q", errs)
		}
	})
}
