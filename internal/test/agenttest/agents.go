package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

type (
	// None is Custom of an agent that knows nothing of a session.
	None struct{}

	// Order has the arguments of the tools.
	Order struct {
		Order string `json:"order" jsonschema:"the number of the order"`
		Cents int    `json:"cents,omitempty"`
	}
)

// Quiet are options whose logs go nowhere.
var Quiet = &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)}

// Says returns a reply that costs something.
func Says(text string, calls ...message.Block) (agent.Reply, error) {
	m := message.Assistant(text)
	m.Blocks = append(m.Blocks, calls...)
	return agent.Reply{Message: m, Usage: orchestrator.Usage{Input: 10, Output: 5, Cost: 0.01}}, nil
}

// Call is a call as a model makes it.
func Call(id, name, args string) message.Block {
	return message.ToolCall(id, name, json.RawMessage(args))
}

// Last returns the newest message that a model is shown.
func Last(r agent.Request) message.Message { return r.Said[len(r.Said)-1] }

// Answers returns a model that asks for calls once, and then says the end of the first result.
func Answers(calls ...message.Block) agent.ModelFunc {
	return func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		if m := Last(r); m.Role != message.RoleUser {
			text := m.Blocks[0].Text
			return Says(strings.ToValidUTF8(text[max(len(text)-1000, 0):], ""))
		}
		return Says("", calls...)
	}
}

// New returns an agent that tries a model once, and whose name is "support" unless d has another one.
func New[C any](t *testing.T, d agent.Definition[C], st agent.Stores) *agent.Agent[C] {
	t.Helper()
	if d.Retry.Attempts == 0 {
		d.Retry.Attempts = 1
	}
	if d.Name == "" {
		d.Name = "support"
	}
	a, err := agent.New(d, st, Quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return a
}

// Settled fails the test if a turn has not settled.
func Settled[C any](t *testing.T, o *agent.Outcome[C], err error) *agent.Outcome[C] {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Say says a text in a session.
func Say[C any](t *testing.T, a *agent.Agent[C], session, text string) *agent.Outcome[C] {
	t.Helper()
	o, err := a.Say(t.Context(), session, agent.Text(text), nil)
	return Settled(t, o, err)
}

// Get returns the newest state of a session, and its version.
func Get[C any](t *testing.T, a *agent.Agent[C], session string) (agent.State[C], int) {
	t.Helper()
	s, version, err := a.Get(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return s, version
}

// By reports whether somebody has answered a call.
func By[C any](s *agent.State[C], call, who string) bool {
	by, ok := s.AnsweredBy(call)
	return ok && by == who
}

// Told returns what a session sees, and fails the test if a model API would not take it.
func Told[C any](t *testing.T, a *agent.Agent[C], session string) string {
	t.Helper()
	var all []message.Message
	for m, err := range a.Messages(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	s, _ := Get(t, a, session)
	waiting := make(map[string]bool)
	for _, o := range s.Open {
		waiting[o.Call.ID] = true
	}
	if err := agent.Valid(all, waiting); err != nil {
		t.Errorf("%v: %s", err, Print(all))
	}
	return Print(all)
}

// Print returns messages in a form to compare.
func Print(all []message.Message) string {
	var parts []string
	for _, m := range all {
		for _, b := range m.Blocks {
			if c, ok := b.Call(); ok {
				parts = append(parts, c.ID+"="+c.Name+string(c.Args))
			} else if r, ok := b.Result(); ok {
				parts = append(parts, fmt.Sprintf("%s: %s", r.CallID, b.Text))
			} else if b.Text != "" {
				parts = append(parts, m.Role+" "+b.Text)
			}
		}
	}
	return strings.Join(parts, " | ")
}

// A Shop has three tools: one that reads, one that the client runs, and one that pays once somebody agrees.
type Shop struct{ Models, Lookups, Refunds atomic.Int32 }

// Definition returns the agent of the shop.
func (w *Shop) Definition() agent.Definition[None] {
	return agent.Definition[None]{
		Name: "support",
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			w.Models.Add(1)
			if Last(r).Role != message.RoleUser {
				return Says("all done")
			}
			return Says("working", Call("c1", "lookup", `{"order":"A1"}`), Call("c2", "camera", `{}`),
				Call("c3", "refund", `{"order":"A1"}`))
		}),
		Tools: []agent.Tool{
			agent.Read("lookup", "looks up", func(context.Context, Order) (string, error) {
				w.Lookups.Add(1)
				return "found", nil
			}),
			agent.ClientTool[struct{}]("camera", "a photo"),
			agent.Effect[Order, string]{
				Name: "refund", Class: ledger.Idempotent, Approve: func(Order) bool { return true },
				Run: func(context.Context, string, Order) (string, error) {
					w.Refunds.Add(1)
					return "paid", nil
				},
			}.Tool(),
		},
	}
}

// ErrModel is the error of a model.
var ErrModel = errors.New("500")

// Lookup is a tool that reads.
func Lookup(f func(context.Context, Order) (string, error)) agent.Tool {
	return agent.Read("lookup", "looks up", f)
}

// Pay is a tool that pays for an order once.
func Pay(paid *atomic.Int32, class ledger.Class) agent.Effect[Order, string] {
	return agent.Effect[Order, string]{
		Name: "refund", Class: class, Key: func(in Order) string { return in.Order },
		Run: func(context.Context, string, Order) (string, error) { paid.Add(1); return "paid", nil },
	}
}

// Sessions returns the sessions of an agent.
func Sessions(t *testing.T, st agent.Stores, name string) (all []string) {
	t.Helper()
	for session, err := range st.Checkpoints.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: name}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, session)
	}
	return all
}

// Long is a text that moves to the transcript at the next step.
var Long = strings.Repeat("0123456789abcdef", 9<<10/16)
