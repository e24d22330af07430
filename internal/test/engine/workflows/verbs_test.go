package workflows_test

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// step notes its call.
func (w *world) step(r *flow.Run, name string, opts ...flow.StepOption) (string, error) {
	return flow.Step(r, name, func(ctx context.Context) (string, error) {
		c := newCall(ctx)
		if err := w.note(ctx, c); err != nil {
			return "", err
		}
		if name == "retries" && c.attempt == 1 {
			return "", errors.New("not yet")
		}
		select {
		case <-time.After(w.Takes):
			return c.value, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, opts...)
}

const nap = 20 * time.Millisecond

// verbs is a workflow with all verbs. Its output is what its steps have returned, in their order.
func (w *world) verbs(name string) *flow.Workflow[int, []string] {
	return flow.New(name, 1, func(r *flow.Run, _ int) (all []string, err error) {
		for _, verb := range []func() (string, error){
			func() (string, error) { return w.step(r, "first") },
			func() (string, error) { return w.step(r, "retries", flow.Retry(retry.Fixed(2, nap))) },
			func() (string, error) { return w.book(r, "booked") },
			func() (string, error) { return flow.Child(r, "child", w.inner(name), 1) },
			func() (string, error) { return "slept", r.Sleep("nap", nap) },
			func() (string, error) { return flow.Wait[string](r, "go") },
			func() (string, error) {
				got, err := flow.Wait[string](r, "never", flow.Timeout(nap))
				if errors.Is(err, flow.ErrTimeout) {
					return "nothing came", nil
				}
				return got, err
			},
		} {
			got, err := verb()
			if err != nil {
				return nil, err
			}
			all = append(all, got)
		}
		if !flow.Patch(r, "patched") {
			return nil, errors.New("the run began without the patch")
		}
		left := flow.Go(r, "left", func(r *flow.Run) (string, error) {
			one, err := w.step(r, "one")
			if err == nil {
				err = r.Sleep("nap", nap)
			}
			if err != nil {
				return "", err
			}
			two, err := w.step(r, "two")
			return one + " " + two, err
		})
		right := flow.Go(r, "right", func(r *flow.Run) (string, error) {
			one, err := w.step(r, "one")
			if err != nil {
				return "", err
			}
			two, err := w.book(r, "two")
			return one + " " + two, err
		})
		both, err := flow.All(left, right)
		if err != nil {
			return nil, err
		}
		last, err := w.step(r, "last")
		return append(append(all, both...), last), err
	})
}

// inner is the child of verbs. Its output is what its step has returned.
func (w *world) inner(name string) *flow.Workflow[int, string] {
	return flow.New(name+"-child", 1, func(r *flow.Run, _ int) (string, error) { return w.step(r, "child") })
}

// orders are steps of verbs of which each begins when the one before is durable.
var orders = [][]string{
	{"first", "retries", "booked", "child", "left/one", "left/two", "last"},
	{"child", "right/one", "right/two", "last"},
}

// rows are the journal of verbs.
var rows = map[string]struct {
	kind    workflow.Kind
	outcome workflow.Outcome
}{
	"first": {workflow.KindStep, workflow.Done}, "retries": {workflow.KindStep, workflow.Done},
	"child":  {workflow.KindChild, workflow.Done},
	"booked": {workflow.KindStep, workflow.Done}, "nap": {workflow.KindSleep, workflow.Done},
	"go": {workflow.KindWait, workflow.Done}, "never": {workflow.KindWait, workflow.TimedOut},
	"patched":  {workflow.KindPatch, workflow.Done},
	"left/one": {workflow.KindStep, workflow.Done}, "left/nap": {workflow.KindSleep, workflow.Done},
	"left/two": {workflow.KindStep, workflow.Done}, "right/one": {workflow.KindStep, workflow.Done},
	"right/two": {workflow.KindStep, workflow.Done}, "last": {workflow.KindStep, workflow.Done},
}
