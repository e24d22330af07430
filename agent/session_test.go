package agent_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A session in its first turn exists, also if the process of that turn has died. A branch does not become part of it.
func TestBranchToRun(t *testing.T) {
	w, st := new(shop), agent.InMemory()
	d := w.Definition()
	a := newAgent(t, d, st)
	say(t, a, "s", "refund")
	ctx, leave := context.WithCancel(t.Context())
	d.Model = agent.ModelFunc(func(ctx context.Context, _ agent.Request, _ func(string)) (agent.Reply, error) {
		leave()
		<-ctx.Done()
		return agent.Reply{}, ctx.Err()
	})
	in := orchestrator.Input{RequestID: "r", Text: "hello"}
	if _, err := newAgent(t, d, st).Say(ctx, "b", in, nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
		t.Fatal(err)
	}
	if err := a.Branch(t.Context(), "s", 1, "b"); !errors.Is(err, agent.ErrExists) {
		t.Error(err)
	}
	if o, err := a.Say(t.Context(), "b", in, nil); err != nil || o.Version != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	if got := told(t, a, "b"); !strings.HasPrefix(got, "user hello") {
		t.Errorf("said %s", got)
	}
}

// A child whose model fails is a result for its parent. The turn that has called it does not fail: it has paid.
func TestChildFails(t *testing.T) {
	st := agent.InMemory()
	child := newAgent(t, agent.Definition[none]{
		Name: "child", Model: agent.ModelFunc(
			func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
				return agent.Reply{}, errModel
			},
		),
	}, st)
	var paid atomic.Int32
	p := pay(&paid, ledger.Ask)
	parent := newAgent(t, agent.Definition[none]{
		Name: "parent", Model: answers(call("a", "refund", `{"order":"A1"}`), call("b", "child", `{"input":"x"}`)),
		Tools: []agent.Tool{p.Tool(), agent.ChildTool(child, "works")},
	}, st)
	o := say(t, parent, "s", "go")
	if o.Status != agent.Completed || paid.Load() != 1 {
		t.Errorf("%+v, paid %d times", o, paid.Load())
	}
	if got := told(t, parent, "s"); !strings.Contains(got, "a: paid | b: the other agent has failed") {
		t.Error(got)
	}
}

// Children share what their parent has left. Together they are over it by one call at most.
func TestChildBudget(t *testing.T) {
	endless := agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
		return says("", call("", "nosuch", `{}`))
	})
	st := agent.InMemory()
	child := newAgent(t, agent.Definition[none]{Name: "child", Model: endless}, st)
	asks := answers(call("a", "child", `{"input":"x"}`), call("b", "child", `{"input":"x"}`))
	parent := newAgent(t, agent.Definition[none]{
		Name: "parent", Model: asks, MaxCost: 0.075, Tools: []agent.Tool{agent.ChildTool(child, "works")},
	}, st)
	o := say(t, parent, "s", "go")
	s, _ := get(t, parent, "s")
	if o.Reason != agent.Budget || s.Spent.Cost > 0.0801 {
		t.Errorf("%+v spent %v", o, s.Spent)
	}
	for session := range s.Children {
		if c, _ := get(t, child, session); c.Reason != agent.Budget || c.Spent.Cost > 0.0401 {
			t.Errorf("%+v", c)
		}
	}
}

// What somebody has written to the table by hand does no harm.
func TestAnsweredByHand(t *testing.T) {
	full := agent.State[none]{Answered: agent.Answered{By: []string{"ann"}, Calls: []byte("\x00\x02aaaabbbb")}}
	for _, calls := range []string{
		"", "\x00", "\x00\x02", "\x00\x02aaaa", "\x00\xff", "\x01\x01aaaa", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffaaaa",
		"\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01aaaabbbb", "\x00\x00\x00\x00",
	} {
		s := full
		s.Answered.Calls = []byte(calls)
		if by, ok := s.AnsweredBy("call"); ok {
			t.Errorf("%q: %q", calls, by)
		}
	}
}
