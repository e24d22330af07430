package agent_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnlog"
)

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
		agent.Effect[refundArgs, string]{
			Name: "keyed", Key: func(in refundArgs) string { return in.Order },
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
		{"lookup", `null`, "the arguments do not fit: they are no JSON object"},
		{"lookup", `{"order":"fails"}`, "500"},
		{"lookup", `{"order":"panics"}`, "the tool failed"},
		{"lookup", `{"order":"nu\u0000ll"}`, "a\uFFFDb"},
		{"lookup", `{"order":"A","\u0000":1}`, "the arguments do not fit"},
		{"lookup", `{"order":"long"}`, "é [cut: there was more]"},
		{"refund", `{"order":"A"}`, "no such order"},
		{"odd", `{"order":"A"}`, "the tool failed"},
		{"typed", `{"order":"A","cents":7}`, `{"cents":7}`},
		{"keyed", `{"order":"` + strings.Repeat("A", 600) + `"}`, "not executed: invalid argument"},
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

// What a model API would refuse, if it were said to it again, is not said as the model has said it.
func TestProperReplies(t *testing.T) {
	replies := []message.Message{
		{Blocks: []message.Block{message.Reasoning("I look", nil), call("c", "lookup", `{"order":"A"}`)}},
		{Blocks: []message.Block{
			message.Text(" "), call("c", "lookup", `{"order":"A"}`), message.Reasoning("hm", nil),
		}},
		{Blocks: []message.Block{call("a b", "look it.up", `["A"]`)}},
		message.Assistant("done"),
	}
	a := newAgent(t, agent.Definition[none]{
		Model: agent.ModelFunc(func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
			m := replies[0]
			replies = replies[1:]
			return agent.Reply{Message: m}, nil
		}),
		Tools: []agent.Tool{lookup(func(context.Context, refundArgs) (string, error) { return "x", nil })},
	}, agent.InMemory())
	a.SetTail(1) // the id comes again when the first call with it has moved
	if o := say(t, a, "s", "go"); o.Status != agent.Completed {
		t.Errorf("%+v", o)
	}
	got := regexp.MustCompile(`call_\w+`).ReplaceAllString(told(t, a, "s"), "new")
	want := `user go | assistant I look | c=lookup{"order":"A"} | c: x | new=lookup{"order":"A"} | new: x | ` +
		`new=look_it_up{"unreadable_arguments":"[\"A\"]"} | new: no such tool | assistant done`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := a.Say(t.Context(), "s", agent.Text(" \n"), nil); err == nil {
		t.Error("nothing was said")
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

// An effect that has run and says that it failed is kept as that, is in no doubt, and does not run again.
func TestRan(t *testing.T) {
	if agent.Ran(nil) != nil {
		t.Error("Ran(nil) is an error")
	}
	ran, calls, failed := 0, 0, 0
	d := agent.Definition[none]{Tools: []agent.Tool{agent.Effect[refundArgs, string]{
		Name: "refund", Key: func(in refundArgs) string { return in.Order },
		Run: func(context.Context, string, refundArgs) (string, error) {
			ran++
			return "", fmt.Errorf("bank: %w", agent.Ran(errors.New("declined")))
		},
	}.Tool()}}
	d.Model = agent.ModelFunc(func(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
		calls++
		return answers(call(fmt.Sprint("c", calls), "refund", `{"order":"A1"}`))(ctx, r, token)
	})
	d.After = func(_ *none, _ agent.Call, r agent.Result) {
		if r.Failed {
			failed++
		}
	}
	st := agent.InMemory()
	a := newAgent(t, d, st)
	for _, want := range []string{"declined", "[idempotent replay of c1] declined"} {
		if o := say(t, a, "s", "go"); o.Text != want {
			t.Errorf("%q, want %q", o.Text, want)
		}
	}
	if ran != 1 || failed != 2 {
		t.Errorf("ran %d times, and %d results say that it failed", ran, failed)
	}
	for e, err := range st.Ledger.Effects(t.Context(), ledger.Query{}) {
		if err != nil || e.State != ledger.Completed {
			t.Error(e.State, err)
		}
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

// Errors whose methods panic, of a model, a tool that reads and an effect, do no harm. Such an effect, and one that
// panics, is in doubt, and is asked for once: the turn waits for a person.
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
		agent.Effect[refundArgs, string]{
			Name: "panics", Run: func(context.Context, string, refundArgs) (string, error) { paid++; panic(paid) },
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
	for _, effect := range []string{"refund", "panics"} {
		paid = 0
		a = newAgent(t, agent.Definition[none]{
			Tools: tools, Model: answers(call("c", effect, `{"order":"A"}`)),
		}, agent.InMemory())
		for range 2 {
			_, err := a.Say(t.Context(), "s", orchestrator.Input{RequestID: "r", Text: "go"}, nil)
			if !errors.Is(err, orchestrator.ErrSuspended) || paid != 1 {
				t.Errorf("%s: %v, paid %d times", effect, err, paid)
			}
		}
	}
}

// A picky model has an API that refuses the first tool.
type picky struct{ agent.ModelFunc }

func (picky) CheckTools(tools []agent.Tool) error { return fmt.Errorf("%q", tools[0].Name) }

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
		{Name: "l", Run: run, Wait: agent.Approval, Otherwise: "x"},
		{Name: "m", Wait: agent.Client, Otherwise: strings.Repeat("x", 5000)},
		{Name: "n", Run: run, Parameters: []byte(`{"properties":{}}`)},
		{Name: "o", Run: run, Parameters: []byte(`{"type":"object","$ref":"#"}`)},
		{Name: "p", Run: run, Parameters: []byte(`{"type":"object","$ref":"#/not"}`)},
		agent.ChildTool(nil, ""),
	}
	_, err := agent.New(agent.Definition[none]{
		Name: "x", Model: agent.Fallback(picky{}, nil), MaxSteps: -1, Tools: tools, ReplyTimeout: -1,
		Compact: &agent.Compaction{Model: agent.Fallback()},
	}, agent.Stores{}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"Model is nil, or a Fallback without", "Compact.Model is a Fallback without", "Retry.Attempts, MaxRetryAfter",
		"Checkpoints, Snapshots and Transcript are required", "must not be negative",
		`"a": its arguments are no struct`, `"b": exactly one of`, `"c": exactly one of`, `"d d": a name has`,
		`"e": exactly one of`, `"f": it is Verifiable without Verify`, `"g": its Parameters`, `"h": another tool`,
		`"i": it needs a Ledger`, `"j": it waits for "godot"`, `"": a ChildTool without an agent`,
		`"l": its Until is of no`, `"m": its Otherwise has more`,
		`"n": its Parameters: their type is not object`, `"o": its Parameters: it refers to itself for the same value`,
		`"p": its Parameters: it refers to "#/not"`, `refuses tools: "h"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in\n%v", want, err)
		}
	}
}

// If the other side does not know of an effect once Settles has passed, the effect runs again.
func TestSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		pay := agent.Effect[refundArgs, string]{
			Name: "refund", Class: ledger.Verifiable, Settles: time.Hour,
			Run: func(context.Context, string, refundArgs) (string, error) {
				if tries++; tries == 1 {
					return "", errModel
				}
				return "paid", nil
			},
			Verify: func(context.Context, string) (string, bool, error) { return "", false, nil },
		}
		a := newAgent(t, agent.Definition[none]{
			Model: answers(call("c1", "refund", `{"order":"A1"}`)), Tools: []agent.Tool{pay.Tool()},
		}, agent.InMemory())
		in := orchestrator.Input{RequestID: "r1", Text: "refund A1"}
		for range 2 {
			var doubt *orchestrator.InDoubtError
			_, err := a.Say(t.Context(), "s", in, nil)
			if !errors.As(err, &doubt) && !errors.Is(err, orchestrator.ErrSuspended) || tries != 1 {
				t.Errorf("%d tries, %v", tries, err)
			}
			time.Sleep(59 * time.Minute)
		}
		o, err := a.Say(t.Context(), "s", in, nil)
		if settled(t, o, err); o.Text != "paid" || tries != 2 {
			t.Errorf("%d tries, %+v", tries, o)
		}
	})
}

// A turn that is longer than the window still shows what the user wants.
func TestWindowOfLongTurn(t *testing.T) {
	for _, tail := range []int{1, 1 << 20} {
		n := 0
		a := newAgent(t, agent.Definition[none]{
			Window: 3, MaxSteps: 99,
			Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
				if len(r.Said) > 4 || !strings.HasPrefix(print(r.Said), "user go") {
					t.Errorf("the model sees %s", print(r.Said))
				}
				if n++; n > 90 {
					return says("done")
				}
				return says("", call("", "nosuch", `{}`))
			}),
		}, agent.InMemory())
		a.SetTail(tail)
		if o := say(t, a, "s", "go"); o.Text != "done" {
			t.Errorf("%+v", o)
		}
	}
}
