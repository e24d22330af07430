package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// The model is stopped in the middle, by another process. What it had said stays. A late stop does nothing.
func stop(t *testing.T, st agent.Stores) {
	began := make(chan struct{})
	d := agent.Definition[None]{
		Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
			if len(r.Said) > 1 {
				return Says("fine after " + Last(r).Blocks[0].Text) // many model APIs want the user to be last
			}
			token("let me ")
			close(began)
			<-ctx.Done()
			return agent.Reply{}, ctx.Err()
		}),
	}
	a, other := New(t, d, st), New(t, d, st)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-began
		if s, _, err := other.Get(t.Context(), "s"); !errors.Is(err, agent.ErrUnknown) {
			t.Errorf("%+v, %v", s, err)
		}
		if err := other.Stop(t.Context(), "s", "", "the user pressed stop"); err != nil {
			t.Error(err)
		}
	}()
	o := Say(t, a, "s", "go")
	<-ended
	if o.Status != agent.Interrupted || o.Interrupt == nil || o.Interrupt.Reason != "the user pressed stop" {
		t.Fatalf("%+v", o)
	}
	for _, run := range []string{"", o.Run} {
		if err := a.Stop(t.Context(), "s", run, "late"); !errors.Is(err, agent.ErrIdle) {
			t.Errorf("nothing runs: %v", err)
		}
	}
	o, err := a.Continue(t.Context(), "s", nil)
	if Settled(t, o, err); o.Status != agent.Completed || o.Interrupt != nil {
		t.Errorf("%+v", o)
	}
	if got, want := Told(t, a, "s"), "user go | assistant let me  | assistant fine after Go on."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := a.Continue(t.Context(), "s", nil); !errors.Is(err, agent.ErrIdle) {
		t.Error(err)
	}
}

// A turn is stopped while it does not know whether a tool has paid. Once that is known, the result is told, and the
// turn settles as interrupted. A call that has not begun is not executed.
func stopInDoubt(t *testing.T, st agent.Stores) {
	var a *agent.Agent[None]
	pay := agent.Effect[Order, string]{
		Name: "refund", Run: func(ctx context.Context, _ string, in Order) (string, error) {
			if err := a.Stop(ctx, "s", "", "enough"); err != nil {
				t.Error(err)
			}
			return "", ErrModel
		},
	}
	limited := *Quiet
	limited.Limits.FanOut = 1
	a, err := agent.New(agent.Definition[None]{
		Name: "support", Model: Answers(Call("c1", "refund", `{"order":"A1"}`), Call("c2", "camera", `{}`)),
		Tools: []agent.Tool{pay.Tool(), agent.ClientTool[struct{}]("camera", "a photo")},
	}, st, &limited)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) })
	in := orchestrator.Input{RequestID: "r1", Text: "refund A1"}
	if _, err := a.Say(t.Context(), "s", in, nil); !errors.Is(err, ledger.ErrInDoubt) {
		t.Fatal(err)
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{Open: true}) {
		if err == nil {
			err = ledger.Resolve(t.Context(), st.Ledger, e.ID, ledger.Answer{
				Landed: true, Result: json.RawMessage(`"paid"`), By: "desk",
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o, err := a.Say(t.Context(), "s", in, nil)
	if Settled(t, o, err); o.Status != agent.Interrupted || o.Interrupt.Reason != "enough" || len(o.Pending) > 0 {
		t.Errorf("%+v", o)
	}
	if got := Told(t, a, "s"); !strings.HasSuffix(got, "c1: paid | c2: not executed: stopped") {
		t.Error(got)
	}
}

// A stop goes down: the turn of a child that is at work ends, two levels deep, by a stop from another process. What a
// child waits for is dropped.
func stopGoesDown(t *testing.T, st agent.Stores) {
	talks := make(chan struct{})
	worker := New(t, agent.Definition[None]{Name: "worker", Model: agent.ModelFunc(
		func(ctx context.Context, _ agent.Request, _ func(string)) (agent.Reply, error) {
			close(talks)
			<-ctx.Done()
			return agent.Reply{}, ctx.Err()
		},
	)}, st)
	var paid atomic.Int32
	_, _, payer := Family(t, st, &paid)
	clerk := New(t, agent.Definition[None]{
		Name:  "clerk2",
		Model: Answers(Call("w", "worker", `{"input":"work"}`), Call("p", "payer", `{"input":"pay"}`)),
		Tools: []agent.Tool{agent.ChildTool(worker, ""), agent.ChildTool(payer, "")},
	}, st)
	d := agent.Definition[None]{
		Name: "boss2", Model: Answers(Call("b", "clerk2", `{"input":"go"}`)),
		Tools: []agent.Tool{agent.ChildTool(clerk, "")},
	}
	boss, other := New(t, d, st), New(t, d, st)
	go func() {
		<-talks
		if err := other.Stop(t.Context(), "s", "", "enough"); err != nil {
			t.Error(err)
		}
	}()
	if o := Say(t, boss, "s", "go"); o.Status != agent.Interrupted || o.Interrupt.Reason != "enough" {
		t.Errorf("%+v", o)
	}
	for name, a := range map[string]*agent.Agent[None]{"clerk2": clerk, "worker": worker} {
		for _, session := range Sessions(t, st, name) {
			if s, _ := Get(t, a, session); s.Status != agent.Interrupted {
				t.Errorf("%s is %s, %s", name, s.Status, s.Reason)
			}
		}
	}
	for _, session := range Sessions(t, st, "payer") {
		if s, _ := Get(t, payer, session); len(s.Open) > 0 || s.Status == agent.Paused {
			t.Errorf("the payer waits: %+v", s)
		}
	}
	if want := "user go | b=clerk2{\"input\":\"go\"} | b: stopped"; Told(t, boss, "s") != want || paid.Load() != 0 {
		t.Errorf("said %s, paid %d times", Told(t, boss, "s"), paid.Load())
	}
}

// A stop that comes between a reply and its tools starts None of them.
func stopBeforeTools(t *testing.T, st agent.Stores) {
	w := new(Shop)
	d := w.Definition()
	model := d.Model
	d.Model = agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		reply, err := model.Reply(ctx, r, token)
		for run, err := range New(t, w.Definition(), st).Runs(t.Context(), "s") {
			if err != nil {
				t.Error(err)
			}
			k := inbox.Key{Orchestrator: "support", Session: "s"}
			it := inbox.Item{Key: k, Kind: inbox.Stop, ID: run.ID, By: "x"}
			if _, err := st.Inbox.Post(t.Context(), it); err != nil {
				t.Error(err)
			}
			break
		}
		return reply, err
	})
	a := New(t, d, st)
	if o := Say(t, a, "s", "go"); o.Status != agent.Interrupted || w.Lookups.Load() != 0 {
		t.Errorf("%+v, %d lookups", o, w.Lookups.Load())
	}
	if got := Told(t, a, "s"); strings.Count(got, "not executed: stopped") != 3 {
		t.Error(got)
	}
}
