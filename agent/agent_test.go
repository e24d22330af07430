package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	none struct{}

	refundArgs struct {
		Order string `json:"order" jsonschema:"the number of the order"`
		Cents int    `json:"cents,omitempty"`
	}
)

// quiet are options whose logs go nowhere.
var quiet = &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)}

// says returns a reply that costs something.
func says(text string, calls ...message.Block) (agent.Reply, error) {
	m := message.Assistant(text)
	m.Blocks = append(m.Blocks, calls...)
	return agent.Reply{Message: m, Usage: orchestrator.Usage{Input: 10, Output: 5, Cost: 0.01}}, nil
}

func call(id, name, args string) message.Block {
	return message.ToolCall(id, name, json.RawMessage(args))
}

// last returns the newest message that a model is shown.
func last(r agent.Request) message.Message { return r.Said[len(r.Said)-1] }

// answers returns a model that asks for calls once, and then says the end of the first result.
func answers(calls ...message.Block) agent.ModelFunc {
	return func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
		if m := last(r); m.Role != message.RoleUser {
			text := m.Blocks[0].Text
			return says(strings.ToValidUTF8(text[max(len(text)-1000, 0):], ""))
		}
		return says("", calls...)
	}
}

func newAgent[C any](t *testing.T, d agent.Definition[C], st agent.Stores) *agent.Agent[C] {
	t.Helper()
	if d.Name == "" {
		d.Name = "support"
	}
	a, err := agent.New(d, st, quiet)
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

// settled fails the test if a turn has not settled.
func settled[C any](t *testing.T, o *agent.Outcome[C], err error) *agent.Outcome[C] {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func say[C any](t *testing.T, a *agent.Agent[C], session, text string) *agent.Outcome[C] {
	t.Helper()
	o, err := a.Say(t.Context(), session, agent.Text(text), nil)
	return settled(t, o, err)
}

func get[C any](t *testing.T, a *agent.Agent[C], session string) (agent.State[C], int) {
	t.Helper()
	s, version, err := a.Get(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return s, version
}

// told returns what a session sees, and fails the test if a model API would not take it.
func told[C any](t *testing.T, a *agent.Agent[C], session string) string {
	t.Helper()
	var all []message.Message
	for m, err := range a.Messages(t.Context(), session) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	s, _ := get(t, a, session)
	waiting := make(map[string]bool)
	for _, o := range s.Open {
		waiting[o.Call.ID] = true
	}
	if err := agent.Valid(all, waiting); err != nil {
		t.Errorf("%v: %s", err, print(all))
	}
	return print(all)
}

// print returns messages in a form to compare.
func print(all []message.Message) string {
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

// A shop has three tools: one that reads, one that the client runs, and one that pays once somebody agrees.
type shop struct{ models, lookups, refunds atomic.Int32 }

func (w *shop) definition() agent.Definition[none] {
	return agent.Definition[none]{
		Name: "support",
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			w.models.Add(1)
			if last(r).Role != message.RoleUser {
				return says("all done")
			}
			return says("working", call("c1", "lookup", `{"order":"A1"}`), call("c2", "camera", `{}`),
				call("c3", "refund", `{"order":"A1"}`))
		}),
		Tools: []agent.Tool{
			agent.Read("lookup", "looks up", func(context.Context, refundArgs) (string, error) {
				w.lookups.Add(1)
				return "found", nil
			}),
			agent.ClientTool[struct{}]("camera", "a photo"),
			agent.Effect[refundArgs, string]{
				Name: "refund", Class: ledger.Idempotent, Approve: func(refundArgs) bool { return true },
				Run: func(context.Context, string, refundArgs) (string, error) {
					w.refunds.Add(1)
					return "paid", nil
				},
			}.Tool(),
		},
	}
}

// Of a reply with three calls one runs, and two wait. Another process takes the answers, in any order. The model is
// asked again once all have their results.
func TestMixedBatch(t *testing.T) {
	st, w := agent.InMemory(), new(shop)
	a := newAgent(t, w.definition(), st)
	in := orchestrator.Input{RequestID: "r1", Text: "refund A1"}
	o, err := a.Say(t.Context(), "s", in, nil)
	if settled(t, o, err); o.Status != agent.Paused || o.Reason != agent.ForRest || len(o.Pending) != 2 {
		t.Fatalf("%+v", o)
	}
	told(t, a, "s")
	o, err = a.Say(t.Context(), "s", in, nil)
	if settled(t, o, err); !o.Replayed {
		t.Error("a repeat ran")
	}
	if _, err := a.Say(t.Context(), "s", agent.Text("hello?"), nil); !errors.Is(err, agent.ErrPending) {
		t.Error(err)
	}

	a = newAgent(t, w.definition(), st) // another process
	for _, bad := range []struct {
		call string
		ans  agent.Answer
		want error
	}{
		{"c2", agent.Approve("desk"), agent.ErrKind},
		{"c3", agent.Done("x"), agent.ErrKind},
		{"c1", agent.Done("x"), agent.ErrNoCall},
		{"c9", agent.Approve("desk"), agent.ErrNoCall},
	} {
		_, err := a.Answer(t.Context(), "s", bad.call, bad.ans)
		if in := new(orchestrator.InputError); !errors.Is(err, bad.want) || !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", bad.call, err, bad.want)
		}
	}
	o, err = a.Answer(t.Context(), "s", "c2", agent.Done("photo"))
	if settled(t, o, err); o.Status != agent.Paused || len(o.Pending) != 1 || w.models.Load() != 1 {
		t.Fatalf("%+v", o)
	}
	o, err = a.Answer(t.Context(), "s", "c2", agent.Done("photo"))
	if settled(t, o, err); !o.Replayed {
		t.Error("the same answer ran")
	}
	if _, err := a.Answer(t.Context(), "s", "c2", agent.Done("other")); !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
	if _, err := a.Continue(t.Context(), "s", nil); !errors.Is(err, agent.ErrPending) {
		t.Error(err)
	}
	o, err = a.Submit(t.Context(), "s", "c3", agent.Approve("desk"))
	if settled(t, o, err); o.Status != agent.Paused || len(o.Pending) != 0 || w.refunds.Load() != 0 {
		t.Fatalf("%+v", o)
	}
	o, err = a.Continue(t.Context(), "s", nil)
	if settled(t, o, err); o.Status != agent.Completed || o.Text != "all done" {
		t.Fatalf("%+v", o)
	}
	if w.models.Load() != 2 || w.lookups.Load() != 1 || w.refunds.Load() != 1 {
		t.Errorf("%d models, %d lookups, %d refunds", w.models.Load(), w.lookups.Load(), w.refunds.Load())
	}
	if _, err := a.Answer(t.Context(), "s", "c3", agent.Refuse("owner", "")); !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
	want := `user refund A1 | assistant working | c1=lookup{"order":"A1"} | c2=camera{} | c3=refund{"order":"A1"} | ` +
		`c1: found | c2: photo | c3: paid | assistant all done`
	if got := told(t, a, "s"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s, version := get(t, a, "s"); s.Spent.Input != 20 || version != 4 || s.Answered["c3"] != "desk" {
		t.Errorf("version %d, %+v", version, s)
	}
}

// A refusal, and a client that could not, are results for the model.
func TestRefused(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.definition(), agent.InMemory())
	say(t, a, "s", "refund A1")
	o, err := a.Answer(t.Context(), "s", "c2", agent.CouldNot("no camera"))
	settled(t, o, err)
	o, err = a.Answer(t.Context(), "s", "c3", agent.Refuse("desk", "too late"))
	settled(t, o, err)
	if got := told(t, a, "s"); !strings.Contains(got, "c2: no camera | c3: not executed: refused. too late") {
		t.Error(got)
	}
	if o.Status != agent.Completed || w.refunds.Load() != 0 {
		t.Errorf("%+v, %d refunds", o, w.refunds.Load())
	}
}

// Drop answers all that waits as not executed, and the session goes on with what the user says next.
func TestDrop(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.definition(), agent.InMemory())
	say(t, a, "s", "refund A1")
	for range 2 { // the second one has nothing to drop
		o, err := a.Drop(t.Context(), "s")
		if settled(t, o, err); o.Status != agent.Completed || len(o.Pending) != 0 || w.models.Load() != 1 {
			t.Errorf("%+v", o)
		}
	}
	if o := say(t, a, "s", "again"); o.Status != agent.Paused {
		t.Errorf("%+v", o)
	}
	told(t, a, "s")
}
