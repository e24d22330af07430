package agent_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// A refusal, and a client that could not, are results for the model.
func TestRefused(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	say(t, a, "s", "refund A1")
	o, err := a.Answer(t.Context(), "s", "c2", agent.CouldNot("no camera"))
	settled(t, o, err)
	o, err = a.Answer(t.Context(), "s", "c3", agent.Refuse("desk", "too late"))
	settled(t, o, err)
	if n := a.Running(); n != 0 {
		t.Errorf("%d runs are running", n)
	}
	if got := told(t, a, "s"); !strings.Contains(got, "c2: no camera | c3: not executed: refused. too late") {
		t.Error(got)
	}
	if o.Status != agent.Completed || w.Refunds.Load() != 0 {
		t.Errorf("%+v, %d refunds", o, w.Refunds.Load())
	}
}

// Drop answers all that waits as not executed, and the session goes on with what the user says next.
func TestDrop(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	say(t, a, "s", "refund A1")
	for range 2 { // the second one has nothing to drop
		o, err := a.Drop(t.Context(), "s")
		if settled(t, o, err); o.Status != agent.Completed || len(o.Pending) != 0 || w.Models.Load() != 1 {
			t.Errorf("%+v", o)
		}
	}
	for m, err := range a.Messages(t.Context(), "s") {
		for _, b := range m.Blocks {
			r, ok := b.Result()
			if err != nil || ok && r.IsError != (r.CallID != "c1") {
				t.Errorf("%+v, %v", r, err)
			}
		}
	}
	if o := say(t, a, "s", "again"); o.Status != agent.Paused {
		t.Errorf("%+v", o)
	}
	told(t, a, "s")
}
