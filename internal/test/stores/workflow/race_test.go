package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// timeouts is how often a signal and the timeout of a wait meet. lateness is by how much one of them comes later after
// it has come first.
const (
	timeouts = 600
	lateness = 512
)

// A signal and the timeout of a wait race under two owners, one of which claims the run from the other. The wait leaves
// one row, no signal is lost, and what a signal was told is what has become of it.
func TestSignalAgainstTimeout(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) workflow.Store) {
		s := open(t)
		var ends sync.Map
		var wg sync.WaitGroup
		var late atomic.Int64 // of the signal; if it is negative, of the timeout
		for w := range 6 {
			wg.Go(func() {
				for i := range timeouts / 6 {
					if t.Failed() {
						return
					}
					how, err := oneTimeout(t.Context(), s, fmt.Sprint("r", w, "-", i), late.Load())
					if err != nil {
						t.Error(err)
						return
					}
					if how == "done" { // who was first is later the next time
						late.Add(lateness)
					} else {
						late.Add(-lateness)
					}
					n, _ := ends.LoadOrStore(how, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
				}
			})
		}
		wg.Wait()
		for _, how := range []string{"done", "timeout"} {
			n, met := ends.Load(how)
			if !met {
				t.Errorf("no wait has ended as %s", how)
				continue
			}
			t.Logf("%d waits are %s", n.(*atomic.Int64).Load(), how)
		}
	})
}

// yield lets others go on so often, at most.
func yield(n int64) {
	if n > 0 {
		for range rand.Int64N(n) + 1 {
			runtime.Gosched()
		}
	}
}

// oneTimeout lets a signal and a timeout meet, and returns how the wait has ended. If late is positive, the signal is,
// and otherwise the timeout.
func oneTimeout(ctx context.Context, s workflow.Store, id string, late int64) (how string, err error) {
	n := starting(id)
	n.Owner = "p of " + id
	_, err = s.Start(ctx, []workflow.NewRun{n})
	e := workflow.Entry{Run: id, Fence: n.Fence, Next: workflow.Park, Event: "go", After: 1}
	verdicts, written := s.Write(ctx, []workflow.Entry{e})
	if err = errors.Join(err, written, errors.Join(verdicts...)); err != nil {
		return "", err
	}
	w := &waiter{Store: s, id: id, owners: [2]string{"a of " + id, "b of " + id}}
	var receipts []workflow.Receipt
	var sent error
	suite.Together(
		func() {
			yield(late)
			receipts, sent = s.Send(ctx, []workflow.Message{{
				Run: id, Action: workflow.Signal, ID: "one", Event: "go", Payload: []byte(`"signal"`),
			}})
		},
		func() { yield(-late); w.errs[0] = w.work(ctx, 0) },
		func() { yield(-late); w.errs[1] = w.work(ctx, 1) })
	for !w.over.Load() && err == nil && w.errs[0] == nil && w.errs[1] == nil { // both were fenced off
		err = w.work(ctx, 0)
	}
	if err = errors.Join(err, sent, w.errs[0], w.errs[1]); err != nil {
		return "", err
	}
	return w.outcome(ctx, receipts[0])
}

// A waiter has two owners that work on one run.
type waiter struct {
	workflow.Store
	id     string
	owners [2]string
	errs   [2]error
	over   atomic.Bool
}

// work claims the run until it is over, and writes how its wait ends.
func (w *waiter) work(ctx context.Context, me int) error {
	for try := 0; try < 50 && !w.over.Load(); try++ {
		q := workflow.ClaimRequest{
			Process: w.owners[me], Nonce: workflow.NewID(), Definitions: definitions, Limit: 1000, MostCrashes: 1000,
		}
		if q.From = w.owners[1-me]; try%2 == 0 {
			q.From = w.owners[me]
		}
		claimed, _, err := w.Claim(ctx, q)
		if err == nil && len(claimed) == 0 {
			q.From, q.MostCrashes = "", 0
			claimed, _, err = w.Claim(ctx, q)
		}
		if err != nil {
			return err
		}
		for _, c := range claimed {
			if err := w.end(ctx, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// end writes how the wait of a run ends, as its owner sees it. A run of another test goes back.
func (w *waiter) end(ctx context.Context, c workflow.Claimed) error {
	st := workflow.Step{Name: "w", Kind: workflow.KindWait, Outcome: workflow.TimedOut}
	e := workflow.Entry{Run: c.ID, Fence: c.Fence, Next: workflow.End, Status: workflow.Completed, Mail: c.Mail}
	if c.Mail > 0 {
		st.Outcome, st.Signal, st.Output = workflow.Done, "one", []byte(`"signal"`)
	}
	if e.Steps = []workflow.Step{st}; c.ID != w.id {
		e = workflow.Entry{Run: c.ID, Fence: c.Fence, Next: workflow.Park, After: 1, Mail: -1}
	}
	verdicts, err := w.Write(ctx, []workflow.Entry{e})
	switch {
	case err != nil:
		return err
	case verdicts[0] == nil && c.ID == w.id:
		w.over.Store(true)
	case verdicts[0] == nil, errors.Is(verdicts[0], workflow.ErrMail), errors.Is(verdicts[0], lock.ErrFenced),
		errors.Is(verdicts[0], workflow.ErrOver):
	default:
		return verdicts[0]
	}
	return nil
}

// outcome returns how the wait has ended, or an error if that does not fit the receipt of the signal.
func (w *waiter) outcome(ctx context.Context, receipt workflow.Receipt) (how string, err error) {
	rows, left := 0, 0
	for st, err := range w.Steps(ctx, w.id) {
		switch {
		case err != nil:
			return "", err
		case st.Kind == workflow.KindSignal:
			left++
		default:
			rows++
			how = string(st.Outcome)
		}
	}
	fits := map[string]bool{
		"done consumed 0": true, "done kept 0": true, // or the owner has claimed the run before
		"timeout over 0": true,
	}
	if is := fmt.Sprint(how, " ", receipt, " ", left); rows != 1 || !fits[is] {
		return "", fmt.Errorf("run %s: %s, and %d rows", w.id, is, rows)
	}
	return how, nil
}
