package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// mostLimited is how many runs of the workflow limited may have an owner at once.
const mostLimited = 10

// limited is a workflow with a limit. Its step leaves a row when it begins and when it ends.
func (w *world) limited() *flow.Workflow[int, int] {
	return flow.New("limited", 1, func(r *flow.Run, n int) (int, error) {
		return flow.Step(r, "work", func(ctx context.Context) (int, error) {
			err := w.note(ctx, call{step: r.ID(), value: "in"})
			if err == nil {
				<-time.After(w.Takes)
				err = w.note(ctx, call{step: r.ID(), value: "out"})
			}
			return n, err
		}, flow.Retry{Attempts: 20})
	}, flow.Limit{Runs: mostLimited})
}

// Five processes share a limit of ten. It is never passed, and its places are full as long as runs wait: nine tenths of
// them on average. Then two processes are killed with what they own: their places come back.
func TestLimit(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.DeadAfter, s.Lease = 2*time.Second, 10*time.Second
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
				if in[c.step] = c.value == "in"; !in[c.step] {
					delete(in, c.step)
				}
				most = max(most, len(in))
			}
			t.Logf("at most %d at once, and %.2f on average", most, mean)
			if most != mostLimited || mean < 0.9*mostLimited {
				t.Errorf("at most %d at once, and %.2f on average, want %d", most, mean, mostLimited)
			}
		})
	}
}

// occupied returns how many runs have an owner on average, from when the places are full until so many runs are left.
func (w *world) occupied(t *testing.T, left int) (mean float64) {
	t.Helper()
	looks, sum, full := 0, 0, false
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		owned, running := 0, 0
		for r, err := range w.store.Runs(t.Context(), workflow.Query{Status: workflow.Running}) {
			if err != nil {
				t.Fatal(err)
			}
			if running++; r.Owner != "" {
				owned++
			}
		}
		if full = full || owned >= mostLimited; full {
			looks, sum = looks+1, sum+owned
		}
		if running <= left {
			return float64(sum) / float64(looks)
		}
	}
	t.Fatal(fmt.Sprint("the runs do not end: ", left))
	return 0
}
