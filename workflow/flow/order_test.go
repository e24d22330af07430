package flow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A sneaky store gets a signal right before it writes an entry for the first time that is of the kind.
type sneaky struct {
	*workflow.Memory
	of   func(e *workflow.Entry) bool
	once sync.Once
}

func (s *sneaky) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	for i := range entries {
		if !s.of(&entries[i]) {
			continue
		}
		var err error
		s.once.Do(func() {
			_, err = s.Send(ctx, []workflow.Message{{
				Run: entries[i].Run, Action: workflow.Signal, ID: "s", Event: "go", Payload: []byte("7"),
			}})
		})
		if err != nil {
			return nil, err
		}
	}
	return s.Memory.Write(ctx, entries)
}

func parks(e *workflow.Entry) bool { return e.Next == workflow.Park && e.Event != "" }

func timesOut(e *workflow.Entry) bool {
	for _, st := range e.Steps {
		if st.Outcome == workflow.TimedOut {
			return true
		}
	}
	return false
}

// A signal that comes after the owner has looked, and before the owner parks the run or writes a timeout, is seen.
func TestSignalComesBetween(t *testing.T) {
	waitX := func(r *flow.Run, o ...flow.WaitOption) (int, error) {
		return flow.Wait[int](r, "x", append(o, flow.Event("go"))...)
	}
	for name, c := range map[string]struct {
		before func(e *workflow.Entry) bool
		body   func(r *flow.Run) (int, error)
	}{
		"park":    {parks, func(r *flow.Run) (int, error) { return waitX(r) }},
		"timeout": {timesOut, func(r *flow.Run) (int, error) { return waitX(r, flow.Timeout(time.Hour)) }},
		"timeout of another branch": {timesOut, func(r *flow.Run) (int, error) {
			x := flow.Go(r, "x", func(r *flow.Run) (int, error) { return waitX(r) })
			flow.Go(r, "y", func(r *flow.Run) (int, error) {
				time.Sleep(time.Second) // the other branch has parked
				_, err := flow.Wait[int](r, "y", flow.Timeout(time.Hour))
				if errors.Is(err, flow.ErrTimeout) {
					_, err = flow.Wait[int](r, "z", flow.Timeout(100*24*time.Hour))
				}
				return 0, err
			})
			return x.Join()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				body := func(r *flow.Run, _ any) (int, error) { return c.body(r) }
				w.run(&sneaky{Memory: w.store, of: c.before}, nil, flow.New("between", 1, body))
				id := w.start("between", nil, nil)
				time.Sleep(3 * time.Hour)
				rows := w.journal(id)
				if x := cmp.Or(rows["x"].Signal, rows["x/x"].Signal); x != "s" {
					t.Errorf("%+v", rows)
				}
			})
		})
	}
}

// An outcome is durable before the function of the next step of its branch is called, and before that of a branch that
// begins after it, or ends before it.
func TestDurableBefore(t *testing.T) {
	inBubble(t, func(w *world) {
		var id string
		after := func(r *flow.Run, name string, before ...string) error {
			return flow.Do(r, name, func(context.Context) error {
				rows := w.journal(id)
				for _, b := range before {
					if rows[b].Outcome != workflow.Done {
						t.Errorf("%s begins, and %s is not durable", name, b)
					}
				}
				return nil
			})
		}
		w.run(w.store, nil, flow.New("durable", 1, func(r *flow.Run, _ any) (any, error) {
			time.Sleep(time.Second)
			err := errors.Join(after(r, "a"), after(r, "b", "a"))
			f := flow.Go(r, "f", func(r *flow.Run) (any, error) { return nil, after(r, "c", "a", "b") })
			time.Sleep(time.Second) // the branch does not wait for Join
			_, joined := f.Join()
			return nil, errors.Join(err, joined, after(r, "d", "f/c"))
		}))
		id = w.start("durable", nil, nil)
		w.completed(id, "null")
	})
}

// A branch waits for its own time, although another branch wakes the run, or keeps it for long.
func TestOwnTime(t *testing.T) {
	inBubble(t, func(w *world) {
		var began time.Time
		var tries []time.Duration
		var woke time.Duration
		w.run(w.store, nil, flow.New("own", 1, func(r *flow.Run, _ any) (any, error) {
			retries := flow.Go(r, "retries", func(r *flow.Run) (any, error) {
				return nil, flow.Do(r, "work", func(ctx context.Context) error {
					if tries = append(tries, time.Since(began)); len(tries) == 1 {
						return flow.RetryAfter(errors.New("busy"), 5*time.Hour)
					}
					return nil
				})
			})
			sleeps := flow.Go(r, "sleeps", func(r *flow.Run) (any, error) {
				if err := r.Sleep("nap", time.Hour); err != nil {
					return nil, err
				}
				return nil, flow.Do(r, "woken", func(context.Context) error { woke = time.Since(began); return nil })
			})
			works := flow.Go(r, "works", func(r *flow.Run) (any, error) {
				if err := flow.Do(r, "long", func(context.Context) error {
					time.Sleep(30 * time.Minute)
					return nil
				}); err != nil {
					return nil, err
				}
				return nil, r.Sleep("nap", 3*time.Hour)
			})
			return flow.All(retries, sleeps, works)
		}))
		began = time.Now()
		id := w.start("own", nil, nil)
		w.await(id)
		if woke < time.Hour || woke > time.Hour+time.Minute {
			t.Errorf("a sleep of an hour took %v", woke)
		}
		if len(tries) != 2 || tries[1] < 5*time.Hour || tries[1] > 5*time.Hour+time.Minute {
			t.Errorf("tried after %v", tries)
		}
	})
}

// A takenOver database finds, at the commit, that the run has another owner.
type takenOver struct{ *world }

func (d takenOver) WriteTx(ctx context.Context, f func(tx any) (workflow.Entry, error)) (verdict, err error) {
	e, err := f(nil)
	if err != nil {
		return nil, err
	}
	_, err = d.Pause(context.WithoutCancel(ctx), e.Run)
	return lock.ErrFenced, err
}

// A body whose run is lost in a StepTx goes no further.
func TestStepTxLost(t *testing.T) {
	inBubble(t, func(w *world) {
		further := false
		w.run(deafToRuns{w.store}, nil, flow.New("lost", 1, func(r *flow.Run, _ any) (any, error) {
			one := func(context.Context, any) (int, error) { return 1, nil }
			_, err := flow.StepTx(r, "tx", takenOver{w}, one, flow.Retry{})
			further = true
			return nil, err
		}))
		id := w.start("lost", nil, nil)
		time.Sleep(time.Hour)
		if run := w.get(id); run.Hold != workflow.Paused || further || len(w.journal(id)) != 0 {
			t.Errorf("%+v, further: %t", run, further)
		}
	})
}

// A process that shuts down begins no step any more.
func TestDeployBetweenSteps(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("steps", 1, func(r *flow.Run, _ any) (n int, err error) {
			for ; n < 10 && err == nil; n++ {
				err = flow.Do(r, fmt.Sprint(n), func(context.Context) error { time.Sleep(5 * time.Second); return nil })
			}
			return n, err
		})
		_, stop := w.run(w.process(), nil, def)
		id := w.start("steps", nil, nil)
		time.Sleep(12 * time.Second)
		began := time.Now()
		if stop(); time.Since(began) > 5*time.Second {
			t.Errorf("Run ended after %v", time.Since(began))
		}
		w.run(w.process(), nil, def)
		w.completed(id, "10")
	})
}

// A run has at most 10,000 steps. The next one is an error, and nothing is stored of it.
func TestMostSteps(t *testing.T) {
	inBubble(t, func(w *world) {
		w.run(w.store, nil, flow.New("most", 1, func(r *flow.Run, _ any) (n int, err error) {
			for ; err == nil; n++ {
				err = flow.Do(r, fmt.Sprint(n), func(context.Context) error { return nil })
			}
			if !errors.Is(err, workflow.ErrInvalid) {
				return 0, err
			}
			return n - 1, nil
		}))
		id := w.start("most", nil, nil)
		w.completed(id, fmt.Sprint(workflow.MaxSteps))
		if n := len(w.journal(id)); n != workflow.MaxSteps {
			t.Errorf("%d rows", n)
		}
	})
}

// A start by name at the front of an engine has the greatest version that the engine has, and the days of that.
func TestStartByName(t *testing.T) {
	inBubble(t, func(w *world) {
		var defs []flow.Definition
		for _, v := range []int{1, 4, 2, 5, 3} {
			defs = append(defs, flow.New("named", v, func(*flow.Run, any) (int, error) { return v, nil }, flow.Keep(v)))
		}
		e, _ := w.run(w.store, nil, defs...)
		c := workflow.NewClient(e.Front())
		for version, want := range map[int]int{0: 5, 2: 2} {
			s, err := c.Start(w.Context(), "named", nil, &workflow.StartOptions{Version: version})
			if err != nil {
				t.Fatal(err)
			}
			w.completed(s.ID, fmt.Sprint(want))
			if run := w.get(s.ID); run.Version != want || run.RetentionDays != want {
				t.Errorf("version %d, for %d days", run.Version, run.RetentionDays)
			}
		}
	})
}

// A process that has taken over more than it has workers for gives back what waits for one. Another process goes on.
func TestQueueGoesElsewhere(t *testing.T) {
	inBubble(t, func(w *world) {
		def := flow.New("queued", 1, func(r *flow.Run, _ any) (any, error) {
			return nil, flow.Do(r, "long", func(context.Context) error { time.Sleep(time.Hour); return nil })
		})
		first := w.process()
		w.run(first, nil, def)
		var ids []string
		for range 2 {
			ids = append(ids, w.start("queued", nil, nil))
		}
		time.Sleep(10 * time.Second)
		second := w.process()
		w.run(second, &flow.Options{Workers: 1}, def)
		time.Sleep(10 * time.Second)
		first.cut(true)
		for second.count("from") == 0 {
			time.Sleep(time.Second)
		}
		began := time.Now()
		w.run(w.process(), nil, def)
		for _, id := range ids {
			w.completed(id, "null")
		}
		if d := time.Since(began); d > time.Hour+time.Minute {
			t.Errorf("the runs were over after %v", d)
		}
	})
}

// A sweep goes on until no run is left whose retention has passed.
func TestSweepsAll(t *testing.T) {
	inBubble(t, func(w *world) {
		const n = 2500
		runs, ends := make([]workflow.NewRun, n), make([]workflow.Entry, n)
		for i := range runs {
			id, fence := fmt.Sprint("r", i), lock.Fence{Epoch: 1, Nonce: "n"}
			runs[i] = workflow.NewRun{ID: id, Workflow: "old", Version: 1, RetentionDays: 1, Owner: "p", Fence: fence}
			ends[i] = workflow.Entry{Run: id, Fence: fence, Next: workflow.End, Status: workflow.Completed, Mail: -1}
		}
		_, err := w.store.Start(w.Context(), runs)
		_, written := w.store.Write(w.Context(), ends)
		if err := errors.Join(err, written); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		w.run(w.store, nil, flow.New("new", 1, func(*flow.Run, any) (any, error) { return nil, nil }))
		time.Sleep(6 * time.Minute) // one sweep
		left, err := w.store.Counts(w.Context())
		if err != nil || len(left) > 0 {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

// A picky store refuses each call with an entry of one run. A call takes a second, so that entries go together.
type picky struct {
	*workflow.Memory
	bad string
}

func (s *picky) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	time.Sleep(time.Second)
	for _, e := range entries {
		if e.Run == s.bad {
			return nil, workflow.ErrInvalid
		}
	}
	return s.Memory.Write(ctx, entries)
}

// An entry that the store refuses fails no run whose entries go with it.
func TestRefusedEntryAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		s := &picky{w.store, w.start("refused", 0, nil)}
		for i := range 10 {
			w.start("refused", i+1, nil)
		}
		w.run(s, &flow.Options{Writers: 1}, flow.New("refused", 1, func(r *flow.Run, _ int) (any, error) {
			return nil, flow.Do(r, "step", func(context.Context) error { return nil })
		}))
		time.Sleep(time.Minute)
		counts, err := w.store.Counts(w.Context())
		if n := counts["refused"][workflow.Completed]; n != 10 || err != nil {
			t.Errorf("%d runs completed, %v", n, err)
		}
	})
}
