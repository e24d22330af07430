package flow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// A trip has a step, a wait, a child, a branch with a sleep, and a last step that fails as long as fails says so. calls
// counts the calls of each.
type trip struct {
	mu    sync.Mutex // protects following field
	calls map[string]int
	fails bool
	child *flow.Workflow[int, int]
}

func newTrip() *trip {
	t := &trip{calls: make(map[string]int)}
	t.child = flow.New("child", 1, func(r *flow.Run, n int) (int, error) {
		t.called("child")
		return n, r.Sleep("s", time.Hour)
	})
	return t
}

func (t *trip) called(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[name]++
}

func (t *trip) step(r *flow.Run, name string) error {
	return flow.Do(r, name, func(context.Context) error {
		t.called(name)
		time.Sleep(time.Second)
		return nil
	})
}

func (t *trip) flow() *flow.Workflow[int, string] {
	return flow.New("trip", 1, func(r *flow.Run, _ int) (string, error) {
		beside := flow.Go(r, "beside", func(r *flow.Run) (any, error) {
			return nil, errors.Join(t.step(r, "early"), r.Sleep("long", 2*time.Hour), t.step(r, "end"))
		})
		if err := t.step(r, "first"); err != nil {
			return "", err
		}
		word, err := flow.Wait[string](r, "word")
		if err != nil {
			return "", err
		}
		n, err := flow.Child(r, "child", t.child, 7)
		if err != nil {
			return "", err
		}
		if _, err := beside.Join(); err != nil {
			return "", err
		}
		if err := t.step(r, "last"); err != nil || t.fails {
			return "", errors.Join(err, errors.New("no"))
		}
		return fmt.Sprint(word, n), nil
	})
}

func (t *trip) want(w *world, what string, calls map[string]int) {
	w.Helper()
	for name, n := range calls {
		if t.calls[name] != n {
			w.Errorf("%s: %s was called %d times, want %d: %v", what, name, t.calls[name], n, t.calls)
		}
	}
}

// A failed run is rewound to each of its steps, and completes. What is before the step is not called again, and the
// rest is. A signal that was taken is there again, and a child of a step that is rewound is another one.
func TestRewind(t *testing.T) {
	for from, want := range map[string]map[string]int{
		"first":       {"first": 2, "early": 2, "end": 2, "child": 4, "last": 2}, // early has not started before
		"word":        {"first": 1, "early": 1, "end": 2, "child": 4, "last": 2},
		"child":       {"first": 1, "early": 1, "end": 2, "child": 4, "last": 2},
		"last":        {"first": 1, "early": 1, "end": 1, "child": 2, "last": 2},
		"beside/long": {"first": 1, "early": 1, "end": 2, "last": 2},
	} {
		t.Run(from, func(t *testing.T) {
			inBubble(t, func(w *world) {
				x := newTrip()
				x.fails = true
				w.run(w.store, nil, x.flow(), x.child)
				id := w.start("trip", 0, nil)
				time.Sleep(time.Minute)
				w.signal(id, "word", "yes", "1")
				if r := w.await(id); r.Status != workflow.Failed {
					t.Fatalf("%+v", r)
				}
				x.fails = false
				if r, err := w.Rewind(w.Context(), id, from); err != nil || r != workflow.Applied {
					t.Fatal(r, err)
				}
				if r := w.get(id); r.Status != workflow.Running || r.Error != "" || !r.Completed.IsZero() {
					t.Errorf("the run is %+v", r)
				}
				w.completed(id, `"yes7"`)
				x.want(w, from, want)
			})
		})
	}
}

// A run that is owned is rewound while a step runs. The step's context ends, and what its owner still writes counts for
// nothing. A run that waits for a child is rewound to before the child: the child is cancelled, and another one runs.
func TestRewindRunning(t *testing.T) {
	inBubble(t, func(w *world) {
		x := newTrip()
		w.run(w.store, nil, x.flow(), x.child)
		id := w.start("trip", 0, nil)
		time.Sleep(time.Second / 2)
		synctest.Wait()
		r, err := w.Rewind(w.Context(), id, "first")
		if !errors.Is(err, workflow.ErrNotFound) || r != workflow.Unknown {
			t.Errorf("a step that the journal does not have yet: %v %v", r, err)
		}
		w.signal(id, "word", "yes", "1")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		old := w.children(id)
		if r, err := w.Rewind(w.Context(), id, "child"); err != nil || r != workflow.Applied {
			t.Fatal(r, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := w.children(id)
		if len(old) != 1 || len(all) != 2 || w.get(old[0].ID).Status != workflow.Cancelled ||
			all[1].Status != workflow.Running {
			t.Errorf("the children are %+v", all)
		}
		w.completed(id, `"yes7"`)
		x.want(w, "rewound", map[string]int{"first": 1, "early": 1, "end": 1, "child": 3, "last": 1})
		if r, err := w.Rewind(w.Context(), id, "child"); err != nil || r != workflow.Over {
			t.Errorf("a completed run: %v %v", r, err)
		}
		if _, err := w.Rewind(w.Context(), "nobody", "child"); !errors.Is(err, workflow.ErrNotFound) {
			t.Errorf("no run: %v", err)
		}
		if _, err := w.Rewind(w.Context(), id, "a b"); !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("no name of a step: %v", err)
		}
	})
}

// A run is forked at each of its steps, while it runs and when it is over. The fork calls what is not before the step.
// The run goes on as if nothing had happened.
func TestFork(t *testing.T) {
	inBubble(t, func(w *world) {
		x := newTrip()
		e, _ := w.run(w.store, nil, x.flow(), x.child)
		c := workflow.NewClient(e.Front())
		id := w.start("trip", 0, &workflow.StartOptions{IdempotencyKey: "key", RetentionDays: 5})
		time.Sleep(time.Minute)
		w.signal(id, "word", "yes", "1")
		time.Sleep(time.Minute)
		fork := func(from string) string {
			s, err := c.Fork(w.Context(), id, from)
			if err != nil || !s.New {
				t.Fatal(s, err)
			}
			r := w.get(s.ID)
			if r.Parent != "" || r.Key != "" || r.RetentionDays != 5 || r.Workflow != "trip" || string(r.Input) != "0" {
				t.Errorf("the fork is %+v", r)
			}
			return s.ID
		}
		while := fork("child")
		w.completed(while, `"yes7"`)
		w.completed(id, `"yes7"`)
		x.want(w, "fork of a run that runs", map[string]int{"first": 1, "early": 1, "end": 2, "child": 4, "last": 2})
		if a, b := w.children(id), w.children(while); len(a) != 1 || len(b) != 1 || a[0].Status != workflow.Completed {
			t.Errorf("children %+v and %+v", a, b)
		}
		again := fork("word")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if r := w.get(again); r.Event != "word" {
			t.Errorf("a fork waits for a signal of its own: %+v", r)
		}
		w.signal(again, "word", "no", "1")
		w.completed(again, `"no7"`)
		last := fork("last")
		w.completed(last, `"yes7"`)
		x.want(w, "all", map[string]int{"first": 1, "early": 1, "end": 3, "child": 6, "last": 4})
		if _, err := c.Fork(w.Context(), id, "no"); !errors.Is(err, workflow.ErrNotFound) {
			t.Error(err)
		}
		if _, err := c.Fork(w.Context(), "nobody", "last"); !errors.Is(err, workflow.ErrNotFound) {
			t.Error(err)
		}
		if names := names(w.journal(id)); !slices.Contains(names, "last") || len(names) != 7 {
			t.Errorf("the journal is %v", names)
		}
	})
}
