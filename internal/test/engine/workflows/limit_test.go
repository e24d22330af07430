package workflows_test

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// mostLimited is how many runs of the workflow limited may have an owner at once.
const mostLimited = 10

// limited is a workflow with a limit. Its step leaves a row when it begins and when it ends. It does not end before the
// test says so.
func (w *world) limited() *flow.Workflow[int, int] {
	return flow.New("limited", 1, func(r *flow.Run, n int) (int, error) {
		return flow.Step(r, "work", func(ctx context.Context) (int, error) {
			err := w.note(ctx, call{step: r.ID(), value: "in"})
			for open := false; err == nil && !open; {
				<-time.After(w.Takes)
				var all []call
				all, err = w.calls(ctx)
				open = slices.ContainsFunc(all, func(c call) bool { return c.step == mayEnd })
			}
			if err == nil {
				err = w.note(ctx, call{step: r.ID(), value: "out"})
			}
			return n, err
		}, flow.Retry{Attempts: 20})
	}, flow.Limit{Runs: mostLimited})
}

// mayEnd is a row of the test: steps of limited may end.
const mayEnd = "may end"

// Five processes share a limit of ten. Its places fill up, and it is never passed. Then two processes are killed with
// what they own: their places come back.
//
// With HOLDFAST_SOAK=1 nine tenths of the places are full on average as long as runs wait.
func TestLimit(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.DeadAfter, s.Lease = 10*time.Second, 30*time.Second // nobody is slow enough
			s.Takes, s.Workers = 2*time.Second, 4
			w := s.here(t)
			var ids []string
			c := workflow.NewClient(w.store)
			for i := range 100 {
				s, err := c.Start(t.Context(), "limited", i, nil)
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, s.ID)
			}
			j := job{Site: s, Limited: true}
			children := make([]*child, 5)
			for i := range children {
				children[i] = j.start(t)
			}
			w.awaitFull(t)
			mean := w.occupied(t, 40)
			children[0].kill()
			children[1].kill()
			for _, id := range ids {
				if r, err := c.Await(t.Context(), id); err != nil || r.Status != workflow.Completed {
					t.Errorf("%+v: %v", r, err)
				}
			}
			calls, err := w.calls(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			in, most := make(map[string]bool), 0
			for _, c := range calls {
				if c.step == mayEnd {
					continue
				}
				if in[c.step] = c.value == "in"; !in[c.step] {
					delete(in, c.step)
				}
				most = max(most, len(in))
			}
			t.Logf("at most %d at once, and %.2f on average", most, mean)
			if most != mostLimited || os.Getenv("HOLDFAST_SOAK") == "1" && mean < 0.9*mostLimited {
				t.Errorf("at most %d at once, and %.2f on average, want %d", most, mean, mostLimited)
			}
		})
	}
}

// awaitFull waits until as many steps have begun as have a place, and then lets steps end.
func (w *world) awaitFull(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for began := make(map[string]bool); len(began) < mostLimited; <-time.After(nap) {
		calls, err := w.calls(t.Context())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d steps have begun: %v", len(began), err)
		}
		for _, c := range calls {
			began[c.step] = true
		}
	}
	<-time.After(time.Second) // one more would begin by now
	if err := w.note(t.Context(), call{step: mayEnd}); err != nil {
		t.Fatal(err)
	}
}

// occupied returns how many runs have an owner on average, until so many runs are left.
func (w *world) occupied(t *testing.T, left int) (mean float64) {
	t.Helper()
	for looks, sum := 0, 0; ; <-time.After(50 * time.Millisecond) {
		running := 0
		for r, err := range w.store.Runs(t.Context(), workflow.Query{Status: workflow.Running}) {
			if err != nil {
				t.Fatal(err)
			}
			if running++; r.Owner != "" {
				sum++
			}
		}
		if looks++; running <= left {
			return float64(sum) / float64(looks)
		}
	}
}
