package agent_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
)

// Two people answer one call at once, in two processes. One answer counts, and the other person is told.
func TestAnswersRace(t *testing.T) {
	for range 20 {
		st, w := agent.InMemory(), new(shop)
		d := w.definition()
		d.Model = answers(call("c3", "refund", `{"order":"A1"}`))
		all := []*agent.Agent[none]{newAgent(t, d, st), newAgent(t, d, st)}
		say(t, all[0], "s", "x")
		var first, late atomic.Int32
		var group sync.WaitGroup
		for i, ans := range []agent.Answer{agent.Approve("desk"), agent.Refuse("owner", "no")} {
			group.Go(func() {
				switch _, err := all[i].Answer(t.Context(), "s", "c3", ans); {
				case err == nil:
					first.Add(1)
				case errors.Is(err, agent.ErrAnswered):
					late.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if first.Load() != 1 || late.Load() != 1 || w.refunds.Load() > 1 {
			t.Fatalf("%d were first, %d late, %d refunds", first.Load(), late.Load(), w.refunds.Load())
		}
		told(t, all[0], "s")
	}
}

// The model is stopped in the middle, by another process. What it had said stays. A late stop does nothing.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := agent.InMemory()
		began := make(chan struct{})
		d := agent.Definition[none]{
			Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
				if len(r.Said) > 1 {
					return says("fine")
				}
				token("let me ")
				close(began)
				<-ctx.Done()
				return agent.Reply{}, ctx.Err()
			}),
		}
		a, other := newAgent(t, d, st), newAgent(t, d, st)
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
		o := say(t, a, "s", "go")
		<-ended
		if o.Status != agent.Interrupted || o.Interrupt == nil || o.Interrupt.Reason != "the user pressed stop" {
			t.Fatalf("%+v", o)
		}
		if err := a.Stop(t.Context(), "s", o.Run, "late"); err != nil {
			t.Error(err)
		}
		if err := a.Stop(t.Context(), "s", "", "nothing runs"); !errors.Is(err, agent.ErrIdle) {
			t.Error(err)
		}
		o, err := a.Continue(t.Context(), "s", nil)
		if settled(t, o, err); o.Status != agent.Completed || o.Interrupt != nil {
			t.Errorf("%+v", o)
		}
		if got, want := told(t, a, "s"), "user go | assistant let me  | assistant fine"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if _, err := a.Continue(t.Context(), "s", nil); !errors.Is(err, agent.ErrIdle) {
			t.Error(err)
		}
	})
}

type seen struct{ Seen map[string]bool }

// Of many creators one succeeds. Updates at once are all kept. An update of an old version is refused.
func TestCreateAndUpdate(t *testing.T) {
	st := agent.InMemory()
	d := agent.Definition[seen]{Model: answers()}
	all := []*agent.Agent[seen]{newAgent(t, d, st), newAgent(t, d, st)}
	var created, exists atomic.Int32
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			l := agent.Labels{User: fmt.Sprint(i), Mode: "standard"}
			switch err := all[i%2].Create(t.Context(), "s", seen{map[string]bool{}}, l); {
			case err == nil:
				created.Add(1)
			case errors.Is(err, agent.ErrExists):
				exists.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	if created.Load() != 1 || exists.Load() != 39 {
		t.Fatalf("%d have created it, %d not", created.Load(), exists.Load())
	}
	for i := range 20 {
		group.Go(func() {
			_, err := all[i%2].Update(t.Context(), "s", 0, func(s *agent.State[seen]) error {
				s.Custom.Seen[fmt.Sprint(i)] = true
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	a := all[0]
	s, version := get(t, a, "s")
	if len(s.Custom.Seen) != 20 || version != 21 {
		t.Fatalf("version %d: %v", version, s.Custom.Seen)
	}
	fail := func(s *agent.State[seen]) error { s.Status = agent.Failed; return nil }
	if now, err := a.Update(t.Context(), "s", version-1, fail); !errors.Is(err, agent.ErrStale) || now != version {
		t.Error(now, err)
	}
	if now, err := a.Update(t.Context(), "s", version, fail); err != nil || now != version+1 {
		t.Error(now, err)
	}
	again := func(s *agent.State[seen]) error { s.Mode = "other"; return nil }
	if _, err := a.Update(t.Context(), "s", 0, again); err == nil {
		t.Error("the mode was set twice")
	}
	if s, _ := get(t, a, "s"); s.Status != agent.Failed || s.Mode != "standard" {
		t.Errorf("%+v", s)
	}
	if _, err := a.Update(t.Context(), "other", 0, fail); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
}

// A branch of a session that waits has all that was said, and waits for nothing. Both go their own ways.
func TestBranch(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.definition(), agent.InMemory())
	a.SetTail(1)
	o := say(t, a, "s", "refund")
	for range 2 { // a repeat does nothing
		if err := a.Branch(t.Context(), "s", o.Version, "what-if"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Answer(t.Context(), "what-if", "c3", agent.Approve("desk")); !errors.Is(err, agent.ErrNoCall) {
		t.Error(err)
	}
	say(t, a, "what-if", "otherwise")
	told(t, a, "what-if")
	for id, ans := range map[string]agent.Answer{"c2": agent.Done("photo"), "c3": agent.Approve("desk")} {
		o, err := a.Answer(t.Context(), "s", id, ans)
		settled(t, o, err)
	}
	if s, _ := get(t, a, "s"); s.Status != agent.Completed || w.refunds.Load() != 1 {
		t.Errorf("%+v", s)
	}
	say(t, a, "taken", "hello")
	if err := a.Branch(t.Context(), "s", 1, "taken"); err == nil {
		t.Error("a branch over a session")
	}
	if err := a.Branch(t.Context(), "s", 99, "x"); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
	if err := a.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	told(t, a, "what-if")
	if _, _, err := a.Get(t.Context(), "s"); !errors.Is(err, agent.ErrUnknown) {
		t.Error(err)
	}
}

// A family is a boss who asks a clerk, who asks a payer, who needs an approval. All use one store.
func family(t *testing.T, st agent.Stores, paid *atomic.Int32) (boss, clerk, payer *agent.Agent[none]) {
	t.Helper()
	named := func(name string, asks message.Block, tool agent.Tool) *agent.Agent[none] {
		return newAgent(t, agent.Definition[none]{Name: name, Model: answers(asks), Tools: []agent.Tool{tool}}, st)
	}
	payer = named("payer", call("p", "pay", `{"order":"A1"}`), agent.Effect[refundArgs, string]{
		Name: "pay", Class: ledger.Idempotent, Approve: func(refundArgs) bool { return true },
		Run: func(context.Context, string, refundArgs) (string, error) { paid.Add(1); return "paid", nil },
	}.Tool())
	clerk = named("clerk", call("c", "payer", `{"input":"pay"}`), agent.ChildTool(payer, "pays"))
	boss = named("boss", call("b", "clerk", `{"input":"pay"}`), agent.ChildTool(clerk, "knows the payer"))
	return boss, clerk, payer
}

// A grandchild asks, and is answered at the root. Usage, parents and roots are those of the family. Delete takes all.
func TestGrandchild(t *testing.T) {
	st, paid := agent.InMemory(), new(atomic.Int32)
	boss, clerk, payer := family(t, st, paid)
	o := say(t, boss, "s", "settle it")
	if o.Status != agent.Paused || o.Reason != agent.ForChildren || len(o.Pending) != 1 ||
		o.Pending[0].Agent != "payer" {
		t.Fatalf("%+v", o)
	}
	o, err := boss.Answer(t.Context(), "s", o.Pending[0].Call.ID, agent.Approve("desk"))
	if settled(t, o, err); o.Status != agent.Completed || o.Text != "paid" || paid.Load() != 1 {
		t.Fatalf("%+v, paid %d times", o, paid.Load())
	}
	s, _ := get(t, boss, "s")
	if len(s.Children) != 1 || s.Spent.Input != 60 {
		t.Errorf("children %v, spent %+v", s.Children, s.Spent)
	}
	for child := range s.Children {
		c, _ := get(t, clerk, child)
		if c.Parent != "s" || c.Root != "s" || len(c.Children) != 1 {
			t.Errorf("%+v", c)
		}
		for grandchild := range c.Children {
			if g, _ := get(t, payer, grandchild); g.Root != "s" || g.Parent != child {
				t.Errorf("%+v", g)
			}
		}
	}
	told(t, boss, "s")
	if err := boss.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"boss", "clerk", "payer"} {
		for session, err := range st.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: name}) {
			t.Errorf("%s has %s, %v", name, session, err)
		}
	}
}

// waitingChild returns the session of a child that waits, and its call.
func waitingChild(t *testing.T, a *agent.Agent[none]) (session, id string) {
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
func TestChildAnswered(t *testing.T) {
	for _, by := range []string{"Continue", "Answer"} {
		paid := new(atomic.Int32)
		boss, clerk, payer := family(t, agent.InMemory(), paid)
		o := say(t, boss, "s", "settle it")
		session, id := waitingChild(t, payer)
		done, err := payer.Answer(t.Context(), session, id, agent.Approve("desk"))
		settled(t, done, err)
		if by == "Continue" {
			if _, err := boss.Continue(t.Context(), "s", nil); !errors.Is(err, agent.ErrPending) {
				t.Error(err) // the clerk has not gone on yet
			}
			session, _ := waitingChild(t, clerk)
			done, err := clerk.Continue(t.Context(), session, nil)
			settled(t, done, err)
			o, err = boss.Continue(t.Context(), "s", nil)
			settled(t, o, err)
		} else {
			o, err = boss.Answer(t.Context(), "s", o.Pending[0].Call.ID, agent.Approve("other desk"))
			settled(t, o, err)
		}
		if o.Status != agent.Completed || o.Text != "paid" || paid.Load() != 1 {
			t.Errorf("%s: %+v, paid %d times", by, o, paid.Load())
		}
		told(t, boss, "s")
	}
}

// If a parent drops what waits, its descendants wait no more.
func TestDropFamily(t *testing.T) {
	paid := new(atomic.Int32)
	boss, clerk, payer := family(t, agent.InMemory(), paid)
	say(t, boss, "s", "settle it")
	o, err := boss.Drop(t.Context(), "s")
	settled(t, o, err)
	for _, a := range []*agent.Agent[none]{boss, clerk, payer} {
		if session, _ := waitingChild(t, a); session != "" {
			t.Errorf("%s waits in %s", a.Name(), session)
		}
	}
	if paid.Load() != 0 {
		t.Error("it was paid")
	}
	told(t, boss, "s")
}

// Children share what their parent has left. Each session is over its part by one call at most.
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
	if o.Reason != agent.Budget || s.Spent.Cost > 0.0901 {
		t.Errorf("%+v spent %v", o, s.Spent)
	}
	for session := range s.Children {
		if c, _ := get(t, child, session); c.Reason != agent.Budget || c.Spent.Cost > 0.0401 {
			t.Errorf("%+v", c)
		}
	}
}
