package agenttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Family returns a boss who asks a clerk, who asks a payer, who needs an approval. All use one store.
func Family(t *testing.T, st agent.Stores, paid *atomic.Int32) (boss, clerk, payer *agent.Agent[None]) {
	t.Helper()
	named := func(name string, asks message.Block, tool agent.Tool) *agent.Agent[None] {
		return New(t, agent.Definition[None]{Name: name, Model: Answers(asks), Tools: []agent.Tool{tool}}, st)
	}
	payer = named("payer", Call("p", "pay", `{"order":"A1"}`), agent.Effect[Order, string]{
		Name: "pay", Class: ledger.Idempotent, Approve: func(Order) bool { return true },
		Run: func(context.Context, string, Order) (string, error) { paid.Add(1); return "paid", nil },
	}.Tool())
	clerk = named("clerk", Call("c", "payer", `{"input":"pay"}`), agent.ChildTool(payer, "pays"))
	boss = named("boss", Call("b", "clerk", `{"input":"pay"}`), agent.ChildTool(clerk, "knows the payer"))
	return boss, clerk, payer
}

// A grandchild asks, and is answered at the root. Usage, parents and roots are those of the family. Delete takes all.
func grandchild(t *testing.T, st agent.Stores) {
	paid := new(atomic.Int32)
	boss, clerk, payer := Family(t, st, paid)
	o := Say(t, boss, "s", "settle it")
	if o.Status != agent.Paused || o.Reason != agent.ForChildren || len(o.Pending) != 1 ||
		o.Pending[0].Agent != "payer" {
		t.Fatalf("%+v", o)
	}
	o, err := boss.Answer(t.Context(), "s", o.Pending[0].Call.ID, agent.Approve("desk"))
	if Settled(t, o, err); o.Status != agent.Completed || o.Text != "paid" || paid.Load() != 1 {
		t.Fatalf("%+v, paid %d times", o, paid.Load())
	}
	s, _ := Get(t, boss, "s")
	if len(s.Children) != 1 || s.Spent.Input != 60 || s.Resumes != 1 {
		t.Errorf("children %v, spent %+v", s.Children, s.Spent)
	}
	for child := range s.Children {
		c, _ := Get(t, clerk, child)
		if c.Parent != "s" || c.Root != "s" || len(c.Children) != 1 {
			t.Errorf("%+v", c)
		}
		for grandchild := range c.Children {
			if g, _ := Get(t, payer, grandchild); g.Root != "s" || g.Parent != child {
				t.Errorf("%+v", g)
			}
		}
	}
	Told(t, boss, "s")
	if err := boss.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"boss", "clerk", "payer"} {
		for session, err := range st.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: name}) {
			t.Errorf("%s has %s, %v", name, session, err)
		}
	}
}

// WaitingChild returns the session of a child that waits, and its call.
func WaitingChild(t *testing.T, a *agent.Agent[None]) (session, id string) {
	t.Helper()
	for o, err := range a.Waiting(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		session, id = o.Session, o.Pending[0].Call.ID
	}
	return session, id
}

// A child is answered in its own session. Then its parent goes on, and nothing is done twice.
func childAnswered(t *testing.T, st agent.Stores) {
	for _, by := range []string{"Continue", "Answer"} {
		paid := new(atomic.Int32)
		boss, clerk, payer := Family(t, st, paid)
		o := Say(t, boss, by, "settle it")
		session, id := WaitingChild(t, payer)
		done, err := payer.Answer(t.Context(), session, id, agent.Approve("desk"))
		Settled(t, done, err)
		if by == "Continue" {
			if _, err := boss.Continue(t.Context(), by, nil); !errors.Is(err, agent.ErrPending) {
				t.Error(err) // the clerk has not gone on yet
			}
			session, _ := WaitingChild(t, clerk)
			done, err := clerk.Continue(t.Context(), session, nil)
			Settled(t, done, err)
			o, err = boss.Continue(t.Context(), by, nil)
			Settled(t, o, err)
		} else {
			o, err = boss.Answer(t.Context(), by, o.Pending[0].Call.ID, agent.Approve("other desk"))
			Settled(t, o, err)
		}
		if o.Status != agent.Completed || o.Text != "paid" || paid.Load() != 1 {
			t.Errorf("%s: %+v, paid %d times", by, o, paid.Load())
		}
		if s, _ := Get(t, boss, by); s.Spent.Input != 60 { // two replies each
			t.Errorf("%s: the session has spent %+v", by, s.Spent)
		}
		Told(t, boss, by)
	}
}

// If a parent drops what waits, its descendants wait no more.
func dropFamily(t *testing.T, st agent.Stores) {
	paid := new(atomic.Int32)
	_, clerk, payer := Family(t, st, paid)
	asks := Call("", "clerk", `{"input":"pay"}`)
	boss := New(t, agent.Definition[None]{
		Name: "boss", Model: Answers(asks, asks), Tools: []agent.Tool{agent.ChildTool(clerk, "")},
	}, st)
	Say(t, boss, "s", "settle it")
	o, err := boss.Drop(t.Context(), "s")
	Settled(t, o, err)
	for _, a := range []*agent.Agent[None]{boss, clerk, payer} {
		if session, _ := WaitingChild(t, a); session != "" {
			t.Errorf("%s waits in %s", a.Name(), session)
		}
	}
	if paid.Load() != 0 {
		t.Error("it was paid")
	}
	Told(t, boss, "s")
}

// Who has dropped a descendant has answered it. Later answers do nothing, and the parent is told that there is None.
func answerAfterDrop(t *testing.T, st agent.Stores) {
	paid := new(atomic.Int32)
	boss, clerk, payer := Family(t, st, paid)
	o := Say(t, boss, "s", "go")
	grandchild, id := WaitingChild(t, payer)
	child, _ := WaitingChild(t, clerk)
	dropped, err := clerk.Drop(t.Context(), child)
	Settled(t, dropped, err)
	if _, err := payer.Answer(t.Context(), grandchild, id, agent.Approve("desk")); !errors.Is(err, agent.ErrNoCall) {
		t.Error(err)
	}
	o, err = boss.Answer(t.Context(), "s", o.Pending[0].Call.ID, agent.Approve("desk"))
	if Settled(t, o, err); o.Text != "no answer" || paid.Load() != 0 {
		t.Errorf("%+v, paid %d times", o, paid.Load())
	}
	if got := Told(t, boss, "s"); !strings.Contains(got, "b: no answer") {
		t.Error(got)
	}
}

// A deploy binds a tool that has had several children. All further calls go to one of them.
func bindLater(t *testing.T, st agent.Stores) {
	friend := New(t, agent.Definition[None]{
		Name: "friend", Model: Answers(Call("", "ask", `{}`)),
		Tools: []agent.Tool{agent.ClientTool[None]("ask", "")},
	}, st)
	ask := Call("", "friend", `{"input":"x"}`)
	d := agent.Definition[None]{
		Tools: []agent.Tool{agent.ChildTool(friend, "")}, Model: Answers(ask, ask, ask, ask, ask, ask),
	}
	for _, p := range Say(t, New(t, d, st), "s", "go").Pending {
		o, err := New(t, d, st).Answer(t.Context(), "s", p.Call.ID, agent.Done("x"))
		Settled(t, o, err)
	}
	d.Tools[0].Bind = true
	a := New(t, d, st)
	Say(t, a, "s", "go")
	s, _ := Get(t, a, "s")
	for _, o := range s.Open {
		if len(s.Children) != 6 || o.Child != s.Open[0].Child {
			t.Errorf("%s is asked, and %s, of %d", o.Child, s.Open[0].Child, len(s.Children))
		}
	}
}

// A child that is bound is one conversation: each call is its next turn. Its usage counts once. A branch of the session
// begins another one.
func bind(t *testing.T, st agent.Stores) {
	child := New(t, agent.Definition[None]{Name: "friend", Model: agent.ModelFunc(
		func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			return Says(fmt.Sprintf("%d heard", (len(r.Said)+1)/2))
		},
	)}, st)
	tool := agent.ChildTool(child, "remembers")
	tool.Bind = true
	n := 0
	a := New(t, agent.Definition[None]{
		Tools: []agent.Tool{tool},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if m := Last(r); m.Role != message.RoleUser {
				return Says(Print([]message.Message{m}))
			}
			n++
			asks := func(id string) message.Block { return Call(fmt.Sprint(id, n), "friend", `{"input":"x"}`) }
			return Says("", asks("a"), asks("b"))
		}),
	}, st)
	for turn := range 3 {
		o := Say(t, a, "s", "go")
		for _, want := range []int{2*turn + 1, 2*turn + 2} {
			if !strings.Contains(o.Text, fmt.Sprint(want, " heard")) {
				t.Errorf("turn %d: %s, want %d", turn, o.Text, want)
			}
		}
		if o.Usage.Input != 40 { // four replies
			t.Errorf("turn %d has used %+v", turn, o.Usage)
		}
	}
	if all := Sessions(t, st, "friend"); len(all) != 1 {
		t.Errorf("sessions %v", all)
	}
	if err := a.Branch(t.Context(), "s", 3, "b"); err != nil {
		t.Fatal(err)
	}
	if o := Say(t, a, "b", "go"); !strings.Contains(o.Text, "1 heard") {
		t.Errorf("the branch shares the conversation: %s", o.Text)
	}
}

// A tardy agent is one that is known later, so that agents can call each other.
type tardy struct{ agent.Other }

func (*tardy) Name() string { return "a" }

// Agents that call each other in a circle get an error, and go on. Nothing is begun for the call that closes it.
func circle(t *testing.T, st agent.Stores) {
	first := new(tardy)
	b := New(t, agent.Definition[None]{
		Name: "b", Model: Answers(Call("x", "a", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(first, "")},
	}, st)
	a := New(t, agent.Definition[None]{
		Name: "a", Model: Answers(Call("x", "b", `{"input":"x"}`)), Tools: []agent.Tool{agent.ChildTool(b, "")},
	}, st)
	first.Other = a
	o := Say(t, a, "s", "go")
	want := "the other agent refuses: agent: a waits for this call: " + orchestrator.ErrReentrant.Error()
	if o.Status != agent.Completed || o.Text != want {
		t.Errorf("%s %q, want %q", o.Status, o.Text, want)
	}
	if n, m := len(Sessions(t, st, "a")), len(Sessions(t, st, "b")); n != 1 || m != 1 {
		t.Errorf("%d and %d sessions", n, m)
	}
}
