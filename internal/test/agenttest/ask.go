package agenttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// seatForm is the form of a question.
const seatForm = `{"type":"object","properties":{"seat":{"type":"string","maxLength":3}},"required":["seat"]}`

// An Asker has tools that ask twice before they do anything: for a seat, by a form, and then whether it is sure.
type Asker struct {
	mu   sync.Mutex          // protects following fields
	keys map[string][]string // of each tool: the key of each run
	paid map[string]int
}

// run is the Run of a tool.
func (w *Asker) run(ctx context.Context, c agent.Call) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil {
		w.keys, w.paid = make(map[string][]string), make(map[string]int)
	}
	w.keys[c.Name] = append(w.keys[c.Name], c.Key)
	in := agent.From(ctx)
	switch {
	case in.Answer == nil:
		return "", agent.Ask(agent.Question{Text: "Which seat?", Form: json.RawMessage(seatForm)})
	case in.Answer.Failed:
		return "", ledger.NotDone(fmt.Errorf("no seat: %s says %q", in.Answer.By, in.Answer.Result))
	case in.Asked.State == nil:
		return "", ledger.NotDone(agent.Ask(agent.Question{Text: "Sure?", State: json.RawMessage(in.Answer.Result)}))
	}
	w.paid[c.Name]++
	return fmt.Sprintf("booked %s, %s", in.Asked.State, in.Answer.Result), nil
}

// Definition returns an agent whose model calls a tool of each class, and one to which a person agrees first.
func (w *Asker) Definition() agent.Definition[None] {
	d := agent.Definition[None]{Model: Answers(Call("c1", "pure", `{}`), Call("c2", "idem", `{}`),
		Call("c3", "verify", `{}`), Call("c4", "ask", `{}`), Call("c5", "approved", `{}`), Call("c6", "keyed", `{}`))}
	for name, class := range map[string]ledger.Class{
		"pure": ledger.Pure, "idem": ledger.Idempotent, "verify": ledger.Verifiable, "ask": ledger.Ask,
		"approved": ledger.Ask, "keyed": ledger.Ask,
	} {
		tool := agent.Tool{Name: name, Class: class, Run: w.run}
		switch name {
		case "verify":
			tool.Verify = func(context.Context, agent.Call) (string, bool, error) { return "", false, nil }
		case "approved":
			tool.Wait = agent.Approval
		case "keyed":
			tool.Key = func(json.RawMessage) string { return "key" }
		}
		d.Tools = append(d.Tools, tool)
	}
	return d
}

// Tools of each class ask twice. Nothing is done and nothing is held until both answers have come, in any process.
// Answers that do not fit change nothing.
func asks(t *testing.T, st agent.Stores) {
	w := new(Asker)
	a := New(t, w.Definition(), st)
	o := Say(t, a, "s", "book")
	if o.Status != agent.Paused || len(o.Pending) != 6 || len(w.keys) != 5 || len(w.paid) != 0 {
		t.Fatalf("%+v, %v, %v", o, w.keys, w.paid)
	}
	o, err := a.Answer(t.Context(), "s", "c5", agent.Approve("ann"))
	if Settled(t, o, err); o.Status != agent.Paused || len(w.keys["approved"]) > 0 { // others are missing
		t.Fatalf("%+v, %v", o, w.keys)
	}
	first := o.Pending[0]
	if first.Kind != agent.Input || first.Of != "c1" || first.Asks != "Which seat?" || first.Call.Name != "pure" ||
		!strings.Contains(string(first.Form), "maxLength") {
		t.Errorf("%+v", first)
	}
	for _, bad := range []struct {
		call string
		ans  agent.Answer
		want error
	}{
		{first.Call.ID, agent.Approve("ann"), agent.ErrKind},
		{first.Call.ID, agent.Done(`{"seat":"12A"}`), agent.ErrKind},
		{first.Call.ID, agent.Provide("ann", `{"seat":"12AB"}`), agent.ErrKind},
		{first.Call.ID, agent.Provide("ann", `{}`), agent.ErrKind},
		{first.Call.ID, agent.Provide("ann", "12A"), agent.ErrKind},
		{first.Call.ID, agent.Provide("ann", ""), agent.ErrKind},
		{first.Call.ID, agent.Provide("ann", `{"seat":"1","x":"`+strings.Repeat("x", 400<<10)+`"}`), agent.ErrKind},
		{"c1", agent.Provide("ann", `{"seat":"12A"}`), agent.ErrNoCall},
		{"ask_" + strings.Repeat("A", 20), agent.Provide("ann", `{"seat":"12A"}`), agent.ErrNoCall},
	} {
		_, err := a.Answer(t.Context(), "s", bad.call, bad.ans)
		if in := new(orchestrator.InputError); !errors.Is(err, bad.want) || !errors.As(err, &in) {
			t.Errorf("%s: %v, want %v", bad.call, err, bad.want)
		}
	}
	if _, err := a.Say(t.Context(), "s", agent.Text("hello?"), nil); !errors.Is(err, agent.ErrPending) {
		t.Error(err)
	}
	if _, version := Get(t, a, "s"); version != 2 {
		t.Errorf("what was refused has made version %d", version)
	}
	for range 3 { // "approved" is a round behind
		a = New(t, w.Definition(), st) // another process
		for _, p := range o.Pending {
			ans := agent.Provide("ann", "yes")
			if p.Asks == "Which seat?" {
				ans = agent.Provide("ann", `{"seat":"12A"}`)
			}
			o, err = a.Answer(t.Context(), "s", p.Call.ID, ans)
			Settled(t, o, err)
			again, err := a.Answer(t.Context(), "s", p.Call.ID, ans)
			if Settled(t, again, err); !again.Replayed {
				t.Error("the same answer ran")
			}
			_, err = a.Answer(t.Context(), "s", p.Call.ID, agent.Decline("bob", ""))
			if !errors.Is(err, agent.ErrAnswered) {
				t.Error(err)
			}
		}
	}
	s, _ := Get(t, a, "s")
	if o.Status != agent.Completed || len(s.Open) > 0 || len(s.Answers) > 0 {
		t.Fatalf("%+v, %+v", o, s)
	}
	for name, keys := range w.keys {
		if len(keys) != 3 || keys[0] != keys[1] || keys[1] != keys[2] || (keys[0] == "") != (name == "pure") {
			t.Errorf("%s has got the keys %q", name, keys)
		}
		if w.paid[name] != 1 {
			t.Errorf("%s has booked %d times", name, w.paid[name])
		}
	}
	got := strings.ReplaceAll(Told(t, a, "s"), `": "`, `":"`) // PostgreSQL writes a space
	if strings.Count(got, `: booked {"seat":"12A"}, yes`) != 6 {
		t.Error(got)
	}
}

// A question is declined, and a session gives up what it waits for.
func askDeclined(t *testing.T, st agent.Stores) {
	w := new(Asker)
	d := w.Definition()
	d.Model = Answers(Call("c1", "pure", `{}`), Call("c2", "idem", `{}`))
	a := New(t, d, st)
	o := Say(t, a, "s", "book")
	for _, p := range o.Pending {
		var err error
		o, err = a.Answer(t.Context(), "s", p.Call.ID, agent.Decline("ann", "too dear"))
		Settled(t, o, err)
	}
	want := `c1: no seat: ann says "too dear" | c2: no seat: ann says "too dear"`
	if got := Told(t, a, "s"); o.Status != agent.Completed || !strings.Contains(got, want) {
		t.Errorf("%+v: %s", o, got)
	}
	o = Say(t, a, "dropped", "book")
	waiting := o.Pending[0].Call.ID
	o, err := a.Drop(t.Context(), "dropped")
	if Settled(t, o, err); o.Status != agent.Completed || strings.Count(Told(t, a, "dropped"), "not executed") != 2 {
		t.Errorf("%+v", o)
	}
	_, err = a.Answer(t.Context(), "dropped", waiting, agent.Provide("ann", `{"seat":"1"}`))
	if !errors.Is(err, agent.ErrNoCall) || len(w.paid) > 0 {
		t.Errorf("%v, paid %v", err, w.paid)
	}
}

// A tool asks when a part of its effect has happened. The ledger has each part, and each happens once. A later call
// with its Key is asked the same, and nothing runs again.
func askHalfway(t *testing.T, st agent.Stores) {
	var parts []string
	tool := func(name string, key func(json.RawMessage) string) agent.Tool {
		return agent.Tool{Name: name, Key: key, Run: func(ctx context.Context, c agent.Call) (string, error) {
			parts = append(parts, name+" "+c.Key)
			if in := agent.From(ctx); in.Answer == nil || in.Asked.Text == "One?" {
				text := map[bool]string{true: "One?", false: "Two?"}[in.Answer == nil]
				return "", agent.Ran(agent.Ask(agent.Question{Text: text}))
			}
			return "whole", nil
		}}
	}
	keyed := func(json.RawMessage) string { return "A1" }
	d := agent.Definition[None]{
		Tools: []agent.Tool{tool("plain", nil), tool("keyed", keyed)},
		Model: agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
			return Answers(Call("c", r.Said[0].Blocks[0].Text, `{}`))(ctx, r, token)
		}),
	}
	a := New(t, d, st)
	for _, name := range []string{"plain", "keyed"} {
		parts = nil
		o := Say(t, a, name, name)
		for _, want := range []string{"One?", "Two?"} {
			if o.Status != agent.Paused || o.Pending[0].Asks != want {
				t.Fatalf("%+v", o)
			}
			var err error
			o, err = a.Answer(t.Context(), name, o.Pending[0].Call.ID, agent.Provide("ann", "yes"))
			Settled(t, o, err)
		}
		if o.Text != "whole" || len(parts) != 3 || parts[0] != parts[1] || parts[1] != parts[2] {
			t.Errorf("%+v, %q", o, parts)
		}
		done := 0
		for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Name == name && e.State == ledger.Completed {
				done++
			}
		}
		if done != 3 {
			t.Errorf("%s: the ledger has %d parts", name, done)
		}
	}
	d.Model = Answers(Call("later", "keyed", `{}`))
	later := New(t, d, st)
	o := Say(t, later, "later", "keyed")
	for _, want := range []string{"One?", "Two?"} {
		if len(o.Pending) != 1 || o.Pending[0].Asks != want {
			t.Fatalf("%+v", o)
		}
		var err error
		o, err = later.Answer(t.Context(), "later", o.Pending[0].Call.ID, agent.Provide("bob", "yes"))
		Settled(t, o, err)
	}
	if o.Text != "[idempotent replay of c] whole" || len(parts) != 3 {
		t.Errorf("%+v, %q", o, parts)
	}
	Say(t, a, "dropped", "plain")
	o, err := a.Drop(t.Context(), "dropped")
	if Settled(t, o, err); !strings.Contains(Told(t, a, "dropped"), "not finished, and a part of it was done") {
		t.Error(Told(t, a, "dropped"))
	}
}

// A tool of a child asks. The question is shown and answered at the root.
func askOfChild(t *testing.T, st agent.Stores) {
	w := new(Asker)
	d := w.Definition()
	d.Name, d.Model = "clerk", Answers(Call("c1", "idem", `{}`))
	clerk := New(t, d, st)
	boss := New(t, agent.Definition[None]{
		Name: "boss", Model: Answers(Call("b1", "clerk", `{"input":"book"}`)),
		Tools: []agent.Tool{agent.ChildTool(clerk, "")},
	}, st)
	o := Say(t, boss, "s", "book")
	for _, ans := range []string{`{"seat":"1"}`, "yes"} {
		if o.Reason != agent.ForChildren || len(o.Pending) != 1 || o.Pending[0].Agent != "clerk" {
			t.Fatalf("%+v", o)
		}
		p := o.Pending[0]
		if _, err := boss.Answer(t.Context(), "s", p.Call.ID, agent.Approve("ann")); !errors.Is(err, agent.ErrKind) {
			t.Error(err)
		}
		var err error
		o, err = boss.Answer(t.Context(), "s", p.Call.ID, agent.Provide("ann", ans))
		Settled(t, o, err)
	}
	if o.Status != agent.Completed || w.paid["idem"] != 1 || !strings.Contains(o.Text, "yes") {
		t.Errorf("%+v, paid %v", o, w.paid)
	}
}

// What tools ask that nobody can be asked is a result for the model. A deploy may remove a tool that has asked.
func askBad(t *testing.T, st agent.Stores) {
	form := func(doc string) agent.Question { return agent.Question{Text: "x", Form: json.RawMessage(doc)} }
	for what, q := range map[string]agent.Question{
		"its question is empty":            {Text: " "},
		"its question has 65537":           {Text: strings.Repeat("x", 64<<10+1)},
		"its State is no JSON":             {Text: "x", State: json.RawMessage("{")},
		"its Form: its type is not object": form(`{"type":"string"}`),
		"its Form: unexpected":             form(`{"type":`),
		"its Form: json":                   form(`3`),
		"its Form: it has references":      form(`{"type":"object","\u0024ref":"#"}`),
		"its Form: ":                       form(`{"type":"object","properties":{"a":{"pattern":"("}}}`),
	} {
		for _, class := range []ledger.Class{ledger.Pure, ledger.Ask} {
			a := New(t, agent.Definition[None]{
				Name: fmt.Sprintf("bad%d", class), Model: Answers(Call("c", "bad", `{}`)),
				Tools: []agent.Tool{{Name: "bad", Class: class, Run: func(context.Context, agent.Call) (string, error) {
					return "", agent.Ask(q)
				}}},
			}, st)
			o := Say(t, a, what, "go")
			if want := "not executed: nobody can be asked: "; !strings.HasPrefix(o.Text, want+what) {
				t.Errorf("%s: %+v", what, o)
			}
		}
	}
	w := new(Asker)
	d := w.Definition()
	d.Model = Answers(Call("c1", "idem", `{}`), Call("c2", "ask", `{}`))
	o := Say(t, New(t, d, st), "s", "book")
	d.Tools = []agent.Tool{agent.ClientTool[None]("idem", "")}
	a := New(t, d, st)
	for _, p := range o.Pending {
		var err error
		o, err = a.Answer(t.Context(), "s", p.Call.ID, agent.Provide("ann", `{"seat":"1"}`))
		Settled(t, o, err)
	}
	got := Told(t, a, "s")
	if !strings.Contains(got, "c1: not executed: the tool has changed | c2: no such tool") {
		t.Errorf("%+v: %s", o, got)
	}
	if len(w.paid) > 0 {
		t.Errorf("paid %v", w.paid)
	}
}

// Nobody answers in time. The tool is told, and so is the model.
func askOutOfTime(t *testing.T, st agent.Stores) {
	w := new(Asker)
	tool := agent.Tool{Name: "book", Run: w.run, Until: 10 * time.Millisecond}
	a := New(t, agent.Definition[None]{Model: Answers(Call("c", "book", `{}`)), Tools: []agent.Tool{tool}}, st)
	if o := Say(t, a, "s", "book"); o.Status != agent.Paused || o.Pending[0].Until.IsZero() {
		t.Fatalf("%+v", o)
	}
	due(t, a)
	s, _ := Get(t, a, "s")
	if want := `no seat: out of time says "nobody has answered in time"`; s.Output != want {
		t.Errorf("%+v", s)
	}
}
