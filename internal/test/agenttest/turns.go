package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Plan is what Finish returns.
type Plan struct {
	Steps []string `json:"steps"`
}

// A turn that has asked often enough settles, Failed, and the next one has all its steps. A budget counts over turns.
func limits(t *testing.T, st agent.Stores) {
	a := New(t, agent.Definition[None]{
		MaxCost: 0.05, MaxSteps: 3,
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return Says("", Call("", "lookup", `{"order":"A"}`))
		}),
		Tools: []agent.Tool{Lookup(func(context.Context, Order) (string, error) { return "x", nil })},
	}, st)
	for i, want := range []agent.Reason{agent.Steps, agent.Budget, agent.Budget} {
		if o := Say(t, a, "s", "go"); o.Status != agent.Failed || o.Reason != want {
			t.Fatalf("%d: %+v", i, o)
		}
		Told(t, a, "s")
	}
	if s, _ := Get(t, a, "s"); s.Spent.Cost < 0.0499 || s.Spent.Cost > 0.0501 {
		t.Error(s.Spent)
	}
}

// A model ends a turn with typed output, in two turns. Arguments that do not fit, and a call beside others, come back.
func finish(t *testing.T, st agent.Stores) {
	replies := []func() (agent.Reply, error){
		func() (agent.Reply, error) { return Says("", Call("", "done", `{"steps":1}`)) },
		func() (agent.Reply, error) {
			return Says("", Call("", "done", `{"steps":[]}`), Call("", "nosuch", `{}`))
		},
		func() (agent.Reply, error) { return Says("", Call("", "done", `{"steps":["a"]}`)) },
	}
	n := 0
	a := New(t, agent.Definition[None]{
		Finish: agent.Output[Plan]("done", "the plan"),
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if !r.MustCall || len(r.Tools) != 1 {
				t.Errorf("%+v", r)
			}
			n++
			return replies[(n-1)%3]()
		}),
	}, st)
	for range 2 {
		o := Say(t, a, "s", "plan")
		p, err := agent.As[Plan](o)
		if err != nil || !slices.Equal(p.Steps, []string{"a"}) || o.Status != agent.Completed {
			t.Errorf("%+v, %v", p, err)
		}
		Told(t, a, "s")
	}
	if _, err := agent.As[Plan](&agent.Outcome[None]{}); err == nil {
		t.Error("a result of nothing")
	}
}

// A process dies in an effect: before it lands, or after it. The next one asks no model for that reply again. What it
// does, the class decides, the vendor or a person. What is pending is listed until then.
func pending(t *testing.T, st agent.Stores) {
	yes, no := &ledger.Answer{Landed: true, By: "ann"}, &ledger.Answer{By: "ann"}
	skip := &ledger.Answer{Skip: true, By: "ann"}
	text := &ledger.Answer{Landed: true, By: "ann", Result: json.RawMessage(`"receipt 7"`)}
	other := &ledger.Answer{Landed: true, By: "ann", Result: json.RawMessage(`{"receipt":7}`)}
	for _, c := range []struct {
		name   string
		class  ledger.Class
		landed bool
		answer *ledger.Answer
		runs   int32
		want   string
		unsure bool
	}{
		{"pure", ledger.Pure, true, nil, 2, "paid 2", false},
		{"idempotent, before", ledger.Idempotent, false, nil, 2, "paid 2", false},
		{"idempotent, after", ledger.Idempotent, true, nil, 2, "paid 2", false},
		{"verifiable, before", ledger.Verifiable, false, nil, 2, "paid 2", false},
		{"verifiable, after", ledger.Verifiable, true, nil, 1, "found", false},
		{"verifiable, unsure", ledger.Verifiable, true, text, 1, "receipt 7", true},
		{"verifiable, unsure, no", ledger.Verifiable, false, no, 2, "paid 2", true},
		{"ask, yes", ledger.Ask, true, yes, 1, "it was done, as a person says", false},
		{"ask, with a receipt", ledger.Ask, true, text, 1, "receipt 7", false},
		{"ask, with more", ledger.Ask, true, other, 1, `{"receipt":7}`, false},
		{"ask, no", ledger.Ask, false, no, 2, "paid 2", false},
		{"ask, skip", ledger.Ask, true, skip, 1, "not executed: a person has decided so", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			session, in := c.name, orchestrator.Input{RequestID: "r", Text: "go"}
			process, die := context.WithCancel(t.Context())
			var asked, runs atomic.Int32
			tool := agent.Tool{
				Name: "pay", Class: c.class,
				Run: func(ctx context.Context, _ agent.Call) (string, error) {
					if runs.Add(1) == 1 {
						die()
						return "", ctx.Err()
					}
					return fmt.Sprint("paid ", runs.Load()), nil
				},
				Settles: time.Nanosecond,
				Verify: func(context.Context, agent.Call) (string, bool, error) {
					if c.unsure {
						return "", false, agent.InDoubt(errors.New("the bank does not say"))
					}
					return "found", c.landed, nil
				},
			}
			model := Answers(Call("c", "pay", `{}`))
			d := agent.Definition[None]{
				Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, t func(string)) (agent.Reply, error) {
					asked.Add(1)
					return model(ctx, r, t)
				}),
				Tools: []agent.Tool{tool},
			}
			if _, err := New(t, d, st).Say(process, session, in, nil); err == nil {
				t.Fatal("the process did not die")
			}
			a := New(t, d, st)
			if c.answer != nil {
				_, err := a.Say(t.Context(), session, in, nil)
				if !errors.Is(err, orchestrator.ErrSuspended) {
					t.Fatal(err)
				}
				pending := 0
				for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{Session: session, Open: true}) {
					pending++
					if err != nil || e.Name != "pay" || string(e.Args) != "{}" || e.IssuedAt.IsZero() {
						t.Errorf("%+v, %v", e, err)
					}
					if err := ledger.Resolve(t.Context(), st.Ledger, e.ID, *c.answer); err != nil {
						t.Error(err)
					}
				}
				if pending != 1 {
					t.Errorf("%d are pending", pending)
				}
			}
			o, err := a.Say(t.Context(), session, in, nil)
			text := strings.ReplaceAll(Settled(t, o, err).Text, `": `, `":`) // a database writes JSON in its own way
			if text != c.want || runs.Load() != c.runs || asked.Load() != 2 {
				t.Errorf("%q after %d runs, %d calls of the model", o.Text, runs.Load(), asked.Load())
			}
			Told(t, a, session)
		})
	}
}

// Two processes do whatever comes to mind to one session, at once. Each refusal is one that a client may see, each call
// has one result, and each effect that was approved happens once.
func everythingAtOnce(t *testing.T, st agent.Stores) {
	var mu sync.Mutex // protects following field
	paid := make(map[string]int)
	d := agent.Definition[Seen]{
		Steer: agent.IntoTurn,
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if _, faults := agent.Doctor(r.Said); faults != nil {
				t.Errorf("%v: %s", faults, Print(r.Said))
			}
			if Last(r).Role == message.RoleUser && rand.IntN(3) > 0 {
				return Says("", Call("", "refund", `{"order":"A"}`), Call("", "camera", `{}`))
			}
			return Says("done")
		}),
		Tools: []agent.Tool{
			agent.ClientTool[None]("camera", ""),
			agent.Effect[Order, string]{
				Name: "refund", Approve: func(Order) bool { return true },
				Run: func(_ context.Context, key string, _ Order) (string, error) {
					mu.Lock()
					defer mu.Unlock()
					paid[key]++
					return "paid", nil
				},
			}.Tool(),
		},
	}
	all := []*agent.Agent[Seen]{New(t, d, st), New(t, d, st)}
	Say(t, all[0], "s", "go")
	type answering = func(context.Context, string, string, agent.Answer) (*agent.Outcome[Seen], error)
	answer := func(a *agent.Agent[Seen], how answering) error {
		s, _, err := a.Get(t.Context(), "s")
		for _, o := range s.Open {
			ans := agent.Done("x")
			if o.Call.Name == "refund" {
				ans = []agent.Answer{agent.Approve("a"), agent.Refuse("b", "")}[rand.IntN(2)]
			}
			_, err = how(t.Context(), "s", o.Call.ID, ans)
		}
		return err
	}
	ops := []func(a *agent.Agent[Seen], n int) error{
		func(a *agent.Agent[Seen], n int) error {
			_, err := a.Say(t.Context(), "s", orchestrator.Input{RequestID: fmt.Sprint("say ", n), Text: "go"}, nil)
			return err
		},
		func(a *agent.Agent[Seen], _ int) error { return answer(a, a.Answer) },
		func(a *agent.Agent[Seen], _ int) error { return answer(a, a.Submit) },
		func(a *agent.Agent[Seen], _ int) error { _, err := a.Continue(t.Context(), "s", nil); return err },
		func(a *agent.Agent[Seen], _ int) error { _, err := a.Drop(t.Context(), "s"); return err },
		func(a *agent.Agent[Seen], _ int) error { return a.Stop(t.Context(), "s", "", "enough") },
		func(a *agent.Agent[Seen], _ int) error {
			_, err := a.Update(t.Context(), "s", 0, func(*agent.State[Seen]) error { return nil })
			return err
		},
		func(a *agent.Agent[Seen], n int) error { return a.Branch(t.Context(), "s", 1, fmt.Sprint("b", n)) },
	}
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 40 {
				err := ops[rand.IntN(len(ops))](all[g%2], 100*g+i)
				known := err == nil
				for _, want := range []error{
					agent.ErrPending, agent.ErrAnswered, agent.ErrNoCall, agent.ErrIdle, orchestrator.ErrBusy,
				} {
					known = known || errors.Is(err, want)
				}
				if !known {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	Told(t, all[0], "s")
	for key, n := range paid {
		if n != 1 {
			t.Errorf("%s was paid %d times", key, n)
		}
	}
}
