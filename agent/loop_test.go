package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

var errModel = errors.New("500")

func lookup(f func(context.Context, refundArgs) (string, error)) agent.Tool {
	return agent.Read("lookup", "looks up", f)
}

func pay(paid *atomic.Int32, class ledger.Class) agent.Effect[refundArgs, string] {
	return agent.Effect[refundArgs, string]{
		Name: "refund", Class: class, Key: func(in refundArgs) string { return in.Order },
		Run: func(context.Context, string, refundArgs) (string, error) { paid.Add(1); return "paid", nil },
	}
}

// A model that fails before anything has happened fails the turn, and the session is as it was. After a tool has run,
// the turn settles, Failed, with all that was said, and Continue goes on. A panic, nothing, and a wrong role are
// failures too.
func TestModelFails(t *testing.T) {
	for name, broken := range map[string]func() (agent.Reply, error){
		"error":   func() (agent.Reply, error) { return agent.Reply{}, errModel },
		"panic":   func() (agent.Reply, error) { panic(errModel) },
		"nothing": func() (agent.Reply, error) { return agent.Reply{}, nil },
		"role":    func() (agent.Reply, error) { return agent.Reply{Message: message.User("x")}, nil },
		"cut": func() (agent.Reply, error) {
			r, err := says("", call("x", "refund", `{}`))
			r.Cut = true
			return r, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked, paid := 0, new(atomic.Int32)
			a := newAgent(t, agent.Definition[none]{
				Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
					switch asked++; asked {
					case 1, 3:
						return broken()
					case 2:
						return says("", call("c", "refund", `{"order":"A"}`))
					}
					return says("done")
				}),
				Tools: []agent.Tool{pay(paid, ledger.Ask).Tool()},
			}, agent.InMemory())
			if _, err := a.Say(t.Context(), "s", agent.Text("refund"), nil); err == nil {
				t.Error("no error")
			}
			if _, _, err := a.Get(t.Context(), "s"); !errors.Is(err, agent.ErrUnknown) {
				t.Error(err)
			}
			if o := say(t, a, "s", "refund"); o.Status != agent.Failed || o.Reason != agent.ModelFailed {
				t.Errorf("%+v", o)
			}
			told(t, a, "s")
			o, err := a.Continue(t.Context(), "s", nil)
			if settled(t, o, err); o.Status != agent.Completed || o.Text != "done" || paid.Load() != 1 {
				t.Errorf("%+v, paid %d times", o, paid.Load())
			}
			want := `user refund | c=refund{"order":"A"} | c: paid | assistant done`
			if got := told(t, a, "s"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// A turn that has asked often enough settles, Failed, and the next one has all its steps. A budget counts over turns.
func TestLimits(t *testing.T) {
	a := newAgent(t, agent.Definition[none]{
		MaxCost: 0.05, MaxSteps: 3,
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return says("", call("", "lookup", `{"order":"A"}`))
		}),
		Tools: []agent.Tool{lookup(func(context.Context, refundArgs) (string, error) { return "x", nil })},
	}, agent.InMemory())
	for i, want := range []agent.Reason{agent.Steps, agent.Budget, agent.Budget} {
		if o := say(t, a, "s", "go"); o.Status != agent.Failed || o.Reason != want {
			t.Fatalf("%d: %+v", i, o)
		}
		told(t, a, "s")
	}
	if s, _ := get(t, a, "s"); s.Spent.Cost < 0.0499 || s.Spent.Cost > 0.0501 {
		t.Error(s.Spent)
	}
}

// What a model gets back of calls that cannot run, and of tools that fail.
func TestResults(t *testing.T) {
	tools := []agent.Tool{
		lookup(func(_ context.Context, in refundArgs) (string, error) {
			switch in.Order {
			case "fails":
				return "", errModel
			case "panics":
				panic("at the disco")
			case "null":
				return "a\x00\xffb", nil
			}
			return strings.Repeat("é", 1<<19) + "é", nil
		}),
		agent.Effect[refundArgs, string]{
			Name: "refund",
			Run: func(context.Context, string, refundArgs) (string, error) {
				return "", ledger.NotDone(errors.New("no such order"))
			},
		}.Tool(),
		agent.Effect[refundArgs, string]{
			Name: "odd", Key: func(refundArgs) string { panic("no key") },
			Run: func(context.Context, string, refundArgs) (string, error) { return "", nil },
		}.Tool(),
		agent.Effect[refundArgs, map[string]int]{
			Name: "typed", Run: func(_ context.Context, _ string, in refundArgs) (map[string]int, error) {
				return map[string]int{"cents": in.Cents}, nil
			},
		}.Tool(),
	}
	for _, c := range []struct{ tool, args, want string }{
		{"nosuch", `{}`, "no such tool"},
		{"lookup", `{"order":7}`, "the arguments do not fit"},
		{"lookup", `{"order":"A","more":1}`, "the arguments do not fit"},
		{"lookup", `{}`, "the arguments do not fit"},
		{"lookup", `not json`, "the arguments do not fit"},
		{"lookup", `null`, "the arguments do not fit"},
		{"lookup", `{"order":"fails"}`, "500"},
		{"lookup", `{"order":"panics"}`, "the tool failed"},
		{"lookup", `{"order":"nu\u0000ll"}`, "a\uFFFDb"},
		{"lookup", `{"order":"A","\u0000":1}`, "the arguments do not fit"},
		{"lookup", `{"order":"long"}`, "é [cut: there was more]"},
		{"refund", `{"order":"A"}`, "no such order"},
		{"odd", `{"order":"A"}`, "the tool failed"},
		{"typed", `{"order":"A","cents":7}`, `{"cents":7}`},
	} {
		d := agent.Definition[none]{Model: answers(call("c", c.tool, c.args)), Tools: tools}
		a := newAgent(t, d, agent.InMemory())
		o := say(t, a, "s", "go")
		if o.Status != agent.Completed || !strings.HasPrefix(o.Text, c.want) && !strings.HasSuffix(o.Text, c.want) {
			t.Errorf("%s%s: %s %.80q, want %q", c.tool, c.args, o.Status, o.Text, c.want)
		}
		told(t, a, "s")
	}
}

// A state has room for a reply and for all results of its calls: otherwise the save would take back what has happened.
func TestLargeResults(t *testing.T) {
	var calls []message.Block
	for i := range 9 {
		calls = append(calls, call(fmt.Sprint("c", i), "lookup", `{"order":"A"}`))
	}
	large := strings.Repeat("\n", 1<<20)
	asked := 0
	a := newAgent(t, agent.Definition[none]{
		Tools: []agent.Tool{lookup(func(context.Context, refundArgs) (string, error) { return large, nil })},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if asked++; asked == 1 {
				return says("", calls...)
			}
			return says(large)
		}),
	}, agent.InMemory())
	if o := say(t, a, "s", "go"); o.Status != agent.Failed || o.Reason != agent.ModelFailed {
		t.Errorf("%+v", o)
	}
	if n := strings.Count(told(t, a, "s"), "[cut: there was more]"); n != 9 {
		t.Errorf("%d results were cut", n)
	}
}

// A key happens once ever: a second call gets the first result, and one with other arguments is told so.
func TestKey(t *testing.T) {
	paid, args := new(atomic.Int32), `{"order":"A1"}`
	d := agent.Definition[none]{Tools: []agent.Tool{pay(paid, ledger.Ask).Tool()}}
	calls := 0
	d.Model = agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		calls++
		return answers(call(fmt.Sprint("c", calls), "refund", args))(ctx, r, token)
	})
	a := newAgent(t, d, agent.InMemory())
	for _, c := range []struct{ session, want string }{
		{"s1", "paid"}, {"s1", "[idempotent replay of c1] paid"}, {"s2", "[idempotent replay of c1] paid"},
	} {
		if o := say(t, a, c.session, "go"); o.Text != c.want {
			t.Errorf("%s: %q, want %q", c.session, o.Text, c.want)
		}
	}
	args = `{"order":"A1","cents":7}`
	if o := say(t, a, "s3", "go"); !strings.Contains(o.Text, "other arguments") || paid.Load() != 1 {
		t.Errorf("%q, paid %d times", o.Text, paid.Load())
	}
}

type plan struct {
	Steps []string `json:"steps"`
}

// A model ends a turn with typed output, in two turns. Arguments that do not fit, and a call beside others, come back.
func TestFinish(t *testing.T) {
	replies := []func() (agent.Reply, error){
		func() (agent.Reply, error) { return says("", call("", "done", `{"steps":1}`)) },
		func() (agent.Reply, error) {
			return says("", call("", "done", `{"steps":[]}`), call("", "nosuch", `{}`))
		},
		func() (agent.Reply, error) { return says("", call("", "done", `{"steps":["a"]}`)) },
	}
	n := 0
	a := newAgent(t, agent.Definition[none]{
		Finish: agent.Output[plan]("done", "the plan"),
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if !r.MustCall || len(r.Tools) != 1 {
				t.Errorf("%+v", r)
			}
			n++
			return replies[(n-1)%3]()
		}),
	}, agent.InMemory())
	for range 2 {
		o := say(t, a, "s", "plan")
		p, err := agent.As[plan](o)
		if err != nil || !slices.Equal(p.Steps, []string{"a"}) || o.Status != agent.Completed {
			t.Errorf("%+v, %v", p, err)
		}
		told(t, a, "s")
	}
	if _, err := agent.As[plan](&agent.Outcome[none]{}); err == nil {
		t.Error("a result of nothing")
	}
}

// After changes what the bot knows, in the order of the calls. A panic in it undoes no call.
func TestAfter(t *testing.T) {
	type memory struct{ Got []string }
	a := newAgent(t, agent.Definition[memory]{
		Model: answers(call("a", "lookup", `{"order":"1"}`), call("b", "nosuch", `{}`),
			call("c", "lookup", `{"order":"2"}`)),
		Tools: []agent.Tool{lookup(func(_ context.Context, in refundArgs) (string, error) { return in.Order, nil })},
		After: func(m *memory, c agent.Call, r agent.Result) {
			if r.Failed {
				panic(r.Text)
			}
			m.Got = append(m.Got, c.ID+r.Text)
		},
	}, agent.InMemory())
	if o := say(t, a, "s", "go"); o.Status != agent.Completed || !slices.Equal(o.Custom.Got, []string{"a1", "c2"}) {
		t.Errorf("%+v", o)
	}
}

// A tool has what its turn has. The turn log has what was said and what came of it, in order.
func TestFrom(t *testing.T) {
	phases := turnlog.NewRegistry()
	if err := phases.Register("looked", "a tool has looked"); err != nil {
		t.Fatal(err)
	}
	st, log := agent.InMemory(), new(turnlog.Memory)
	st.TurnLog = turnlog.New(log, phases)
	a := newAgent(t, agent.Definition[none]{
		Model: answers(call("c", "lookup", `{"order":"1"}`)),
		Tools: []agent.Tool{lookup(func(ctx context.Context, _ refundArgs) (string, error) {
			c := agent.From(ctx)
			c.Emit("looking")
			c.Logger().Info("looking")
			if c.Session != "s" || c.Run == "" || c.Call.ID != "c" {
				t.Errorf("%+v", c)
			}
			return "x", errors.Join(c.Show("part"), c.Record(ctx, "looked", 1))
		})},
	}, st)
	var got []string
	stream := a.Bot().Stream(t.Context(), "s", a.Input(agent.Text("go")), nil)
	for ev := range stream.Events() {
		if ev.Kind == orchestrator.Token || ev.Kind == orchestrator.Part {
			got = append(got, ev.Delta+string(ev.Data))
		}
	}
	res, err := stream.Result()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := log.Restore(t.Context(), res.RunID)
	if err != nil {
		t.Fatal(err)
	}
	var phasesOf []string
	for _, e := range entries {
		phasesOf = append(phasesOf, e.Phase)
	}
	order := []string{
		turnlog.Started, turnlog.LLMComplete, "looked", turnlog.ToolReceived, turnlog.LLMComplete, turnlog.Settled,
	}
	if !slices.Equal(phasesOf, order) {
		t.Errorf("recorded %q, want %q", phasesOf, order)
	}
	want := []string{
		`{"type":"tool_call","id":"c","name":"lookup","args":{"order":"1"}}`, "looking", `"part"`,
		`{"type":"tool_result","id":"c","text":"x"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	c := agent.From(t.Context())
	c.Emit("x")
	if err := errors.Join(c.Show(1), c.Record(t.Context(), "x", 1)); err != nil || c.Logger() == nil {
		t.Error(err)
	}
}

// A wildError is a foreign error whose methods panic.
type wildError struct{}

func (*wildError) Error() string { panic("Error") }
func (*wildError) Is(error) bool { panic("Is") }
func (*wildError) As(any) bool   { panic("As") }

// Errors whose methods panic, of a model, a tool that reads and an effect, do no harm. An effect is in doubt, and is
// asked for once: the turn waits for a person.
func TestForeignErrors(t *testing.T) {
	paid := 0
	tools := []agent.Tool{
		lookup(func(context.Context, refundArgs) (string, error) { return "", new(wildError) }),
		agent.Effect[refundArgs, string]{
			Name: "refund",
			Run: func(context.Context, string, refundArgs) (string, error) {
				paid++
				return "", new(wildError)
			},
		}.Tool(),
	}
	a := newAgent(t, agent.Definition[none]{
		Tools: tools, Model: answers(call("c", "lookup", `{"order":"A"}`)),
	}, agent.InMemory())
	if o := say(t, a, "s", "go"); o.Status != agent.Completed {
		t.Errorf("%+v", o)
	}
	a = newAgent(t, agent.Definition[none]{
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			return agent.Reply{}, new(wildError)
		}),
	}, agent.InMemory())
	if _, err := a.Say(t.Context(), "s", agent.Text("go"), nil); err == nil {
		t.Error("no error")
	}
	a = newAgent(t, agent.Definition[none]{
		Tools: tools, Model: answers(call("c", "refund", `{"order":"A"}`)),
	}, agent.InMemory())
	for range 2 {
		_, err := a.Say(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: "go"}, nil)
		if !errors.Is(err, orchestrator.ErrSuspended) || paid != 1 {
			t.Errorf("%v, paid %d times", err, paid)
		}
	}
}

// New names every fault.
func TestNew(t *testing.T) {
	run := func(context.Context, agent.Call) (string, error) { return "", nil }
	tools := []agent.Tool{
		agent.Read("a", "", func(context.Context, string) (string, error) { return "", nil }),
		agent.Read[refundArgs, string]("b", "", nil),
		{Name: "c"},
		{Name: "d d", Run: run},
		{Name: "e", Run: run, Wait: agent.Client},
		{Name: "f", Run: run, Class: ledger.Verifiable},
		{Name: "g", Run: run, Parameters: []byte("{")},
		{Name: "h", Run: run, Class: ledger.Pure},
		{Name: "h", Run: run, Class: ledger.Pure},
		{Name: "i", Run: run},
		{Name: "j", Run: run, Wait: "godot"},
		agent.ChildTool(nil, ""),
	}
	_, err := agent.New(agent.Definition[none]{Name: "x", MaxSteps: -1, Tools: tools}, agent.Stores{}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Model is nil", "Checkpoints, Snapshots and Transcript are required", "must not be negative",
		`"a": its arguments are no struct`, `"b": exactly one of`, `"c": exactly one of`, `"d d": a name has`,
		`"e": exactly one of`, `"f": it is Verifiable without Verify`, `"g": its Parameters`, `"h": another tool`,
		`"i": it needs a Ledger`, `"j": it waits for "godot"`, `"": a ChildTool without an agent`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

// Whatever models reply and people answer, a model is only ever asked with what a model API takes, also with a window
// and with messages that move.
func TestAlwaysValid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := new(shop)
		d := w.definition()
		d.MaxSteps, d.Window = 3, rapid.SampledFrom([]int{0, 2, 5, 40}).Draw(rt, "window")
		draw := func(name string, n int) int { return rapid.IntRange(0, n).Draw(rt, name) }
		args := []string{`{"order":"A"}`, `{}`, `not json`}
		d.Model = agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			if err := agent.Valid(r.Said, nil); err != nil {
				rt.Errorf("%v: %s", err, print(r.Said))
			}
			if draw("fails", 5) == 0 {
				return agent.Reply{}, errModel
			}
			var calls []message.Block
			for range draw("calls", 3) {
				id := []string{"", "c1", "c2", "a b"}[draw("id", 3)]
				tool := []string{"lookup", "camera", "refund", "nosuch"}[draw("tool", 3)]
				calls = append(calls, call(id, tool, args[draw("args", 2)]))
			}
			return says("x", calls...)
		})
		a, err := agent.New(d, agent.InMemory(), quiet)
		if err != nil {
			rt.Fatal(err)
		}
		defer a.Bot().Shutdown(context.Background())
		a.SetTail(draw("tail", 1) * 400)
		for range 8 {
			_, err := a.Say(t.Context(), "s", agent.Text("go"), nil)
			if !errors.Is(err, agent.ErrPending) {
				continue
			}
			s, _, err := a.Get(t.Context(), "s")
			if err != nil {
				rt.Fatal(err)
			}
			for _, o := range s.Open {
				ans := []agent.Answer{agent.Done("x"), agent.Approve("a"), agent.Refuse("b", "")}[draw("answer", 2)]
				_, _ = a.Answer(t.Context(), "s", o.Call.ID, ans)
			}
			if draw("drop", 1) == 0 {
				_, err = a.Drop(t.Context(), "s")
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
	})
}
