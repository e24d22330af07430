package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// Histories of several owners, some of which have lost the run, are linearizable: what each was told fits one order of
// the calls.
func TestHistories(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) workflow.Store) {
		faulttest.WorkflowHistories(t, open, 10*faulttest.Histories())
	})
}

// Eight owners work on 300 runs of three steps, and now and then claim what another owns. Each step is written once, by
// one owner, and of two that believe to own a run only one can write.
func TestOneOwner(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) workflow.Store) {
		const runs, steps = 300, 3
		s := open(t)
		batch := make([]workflow.NewRun, runs)
		for i := range batch {
			batch[i] = starting(fmt.Sprintf("r%03d", i))
			batch[i].Owner, batch[i].Fence = "", lock.Fence{}
		}
		if _, err := s.Start(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		w := &crew{Store: s, writes: make(map[string]string)}
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				for w.ended.Load() < runs && !t.Failed() {
					if err := w.work(t.Context(), fmt.Sprint("p", n), steps); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d entries were fenced off", w.fenced.Load())
		for id := range w.seen(t) {
			for i := range steps {
				if name := fmt.Sprint("s", i); w.writes[id+name] == "" {
					t.Errorf("run %s has no step %s", id, name)
				}
			}
		}
	})
}

// A crew are several owners of the same runs.
type crew struct {
	workflow.Store
	ended, fenced atomic.Int64

	mu     sync.Mutex // protects following field
	writes map[string]string
}

// work claims some runs, from another owner or because they are due, and writes their next steps.
func (w *crew) work(ctx context.Context, me string, steps int) error {
	q := workflow.ClaimRequest{Process: me, Nonce: workflow.NewID(), Definitions: definitions, Limit: 5}
	if rand.IntN(3) == 0 {
		q.From, q.MostCrashes, q.Limit = fmt.Sprint("p", rand.IntN(8)), 1000, 2
	}
	claimed, _, err := w.Claim(ctx, q)
	for i := 0; err == nil && i < len(claimed); i++ {
		err = w.goOn(ctx, claimed[i], steps)
	}
	return err
}

// goOn goes on with a run as its owner, from what its journal has, and ends it or gives it back.
func (w *crew) goOn(ctx context.Context, c workflow.Claimed, steps int) error {
	rows := 0
	for st, err := range w.Steps(ctx, c.ID) {
		if err != nil {
			return err
		}
		if st.Name != fmt.Sprint("s", rows) {
			return fmt.Errorf("row %d of run %s is %q", rows, c.ID, st.Name)
		}
		rows++
	}
	for ; rows < steps; rows++ {
		lost, err := w.put(ctx, c, fmt.Sprint("s", rows), workflow.Stay)
		if lost || err != nil {
			return err
		}
		if rand.IntN(4) == 0 {
			_, err := w.put(ctx, c, "", workflow.Park)
			return err
		}
	}
	lost, err := w.put(ctx, c, "", workflow.End)
	if !lost && err == nil {
		w.ended.Add(1)
	}
	return err
}

// put writes an entry. Nobody else may have written the same row.
func (w *crew) put(ctx context.Context, c workflow.Claimed, step string, next workflow.Next) (lost bool, err error) {
	e := workflow.Entry{Run: c.ID, Fence: c.Fence, Next: next, Mail: -1}
	switch next {
	case workflow.Park:
		e.After = 1
	case workflow.End:
		e.Status = workflow.Completed
	default:
		e.Steps = []workflow.Step{{Name: step, Kind: workflow.KindStep, Outcome: workflow.Done}}
	}
	verdicts, err := w.Write(ctx, []workflow.Entry{e})
	switch {
	case err != nil:
		return false, err
	case errors.Is(verdicts[0], lock.ErrFenced), errors.Is(verdicts[0], workflow.ErrOver):
		w.fenced.Add(1)
		return true, nil
	case verdicts[0] != nil || step == "":
		return false, verdicts[0]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if by := w.writes[c.ID+step]; by != "" {
		return false, fmt.Errorf("step %s of run %s was written by %s and by %s", step, c.ID, by, c.Owner)
	}
	w.writes[c.ID+step] = c.Owner
	return false, nil
}

// seen returns the runs that are completed.
func (w *crew) seen(t *testing.T) map[string]bool {
	t.Helper()
	all := make(map[string]bool)
	for r, err := range w.Runs(t.Context(), workflow.Query{Status: workflow.Completed}) {
		if err != nil {
			t.Fatal(err)
		}
		all[r.ID] = true
	}
	if len(all) != 300 {
		t.Errorf("%d runs are completed, want 300", len(all))
	}
	return all
}
