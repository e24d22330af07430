package workflow_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

// falls is a store whose call number fails fails.
type falls struct {
	*workflow.Memory
	calls, fails int
}

var errFalls = errors.New("away")

func (f *falls) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	if f.calls++; f.calls == f.fails {
		return nil, errFalls
	}
	return f.Memory.Send(ctx, messages)
}

func TestApplyAll(t *testing.T) {
	const n = 600
	store := &falls{Memory: new(workflow.Memory)}
	c := workflow.NewClient(store)
	for i := range n {
		for _, name := range []string{"order", "other"} {
			if _, err := c.Start(t.Context(), name, map[string]int{"shop": i % 2}, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	orders := workflow.Query{Workflow: "order"}
	shop := workflow.Query{Workflow: "order", Input: []byte(`{"shop":1}`)}
	const order, pause, resume, cancel = "order", workflow.Pause, workflow.Resume, workflow.Cancel
	store.fails = 2
	if changed, err := c.ApplyAll(t.Context(), pause, orders); changed != 256 || !errors.Is(err, errFalls) {
		t.Errorf("%d are paused, and the second group fails: %v", changed, err)
	}
	for i, step := range []struct {
		a         workflow.Action
		q         workflow.Query
		want      int
		cancelled int
	}{
		{resume, shop, 128, 0},
		{pause, orders, n - 128, 0},
		{pause, orders, 0, 0},
		{resume, shop, n / 2, 0},
		{resume, shop, 0, 0},
		{cancel, workflow.Query{Workflow: "order", Limit: 10}, 10, 10},
		{cancel, orders, n - 10, n},
		{cancel, orders, 0, n},
		{pause, orders, 0, n},
		{cancel, workflow.Query{Status: workflow.Completed}, 0, n},
		{resume, workflow.Query{Workflow: "nobody"}, 0, n},
	} {
		changed, err := c.ApplyAll(t.Context(), step.a, step.q)
		counts, _ := store.Counts(t.Context())
		if err != nil || changed != step.want || counts[order][workflow.Cancelled] != step.cancelled ||
			counts["other"][workflow.Running] != n {
			t.Errorf("%d: %s has changed %d, want %d, and there are %v: %v", i, step.a, changed, step.want, counts, err)
		}
	}
	for _, a := range []workflow.Action{"", workflow.Signal, workflow.Rewind, "wish"} {
		if _, err := c.ApplyAll(t.Context(), a, orders); !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("action %q: %v", a, err)
		}
	}
	maybe := workflow.Query{Status: "maybe"}
	if _, err := c.ApplyAll(t.Context(), cancel, maybe); !errors.Is(err, workflow.ErrInvalid) {
		t.Errorf("an invalid query: %v", err)
	}
}

// A damaged run is cancelled along with the others.
func TestApplyAllDamaged(t *testing.T) {
	m := new(workflow.Memory)
	for _, id := range []string{"a", "b", "c"} {
		if _, err := m.Start(t.Context(), []workflow.NewRun{{ID: id, Workflow: "w"}}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := workflow.NewClient(spoiled{m, "b"}).ApplyAll(t.Context(), workflow.Cancel, workflow.Query{Workflow: "w"})
	if counts, _ := m.Counts(t.Context()); err != nil || n != 3 || counts["w"][workflow.Cancelled] != 3 {
		t.Errorf("%d are cancelled: %v, %v", n, counts, err)
	}
}
