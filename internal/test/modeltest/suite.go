package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// An API is a model of a vendor under test.
type API struct {
	Wire
	// New returns the model at a server. Without a key it is that of the environment.
	New func(model, url, key string, p models.Prices) (agent.Model, error)
}

// clauses are what each model does.
var clauses = []struct {
	name  string
	check func(t testing.TB, api API)
}{
	{"says", says},
	{"asks", asks},
	{"typed", typed},
	{"thinks", thinks},
	{"joins", joins},
	{"cut off", cutOff},
	{"statuses", statuses},
	{"fails in the middle", failsInTheMiddle},
	{"refuses", refuses},
	{"length", length},
	{"nonsense", nonsense},
	{"never ends", neverEnds},
	{"tools", tools},
	{"keys", keys},
	{"prices", prices},
	{"agent", talks},
	{"shop", shop},
}

// Run checks a model.
func Run(t *testing.T, api API) {
	for _, c := range clauses {
		t.Run(c.name, func(t *testing.T) { c.check(t, api) })
	}
}

// told is what the user says in most clauses.
var told = agent.Request{
	Instructions: "You work for a shop.", Said: []message.Message{message.User("refund A-1042")},
	Tools: []agent.Tool{
		{
			Name: "lookup", Description: "looks up",
			Parameters: json.RawMessage(`{"type":"object","properties":{"a":{}}}`),
		},
		{Name: "refund", Parameters: json.RawMessage(`{"type":"object","properties":{"order":{"type":"string"}},
			"required":["order"],"additionalProperties":false}`)},
		{Name: "nothing"},
	},
}

// reply asks a model at a server once.
func (api API) reply(
	t testing.TB, r agent.Request, script func(Asked) Answer,
) (reply agent.Reply, said string, err error) {
	t.Helper()
	server := httptest.NewServer(api.Handler(script))
	defer server.Close()
	prices := models.Prices{"m-1": {Input: 1, Output: 10, Cached: 0.1, Written: 2}}
	m, err := api.New("m-1", server.URL, "sk-test", prices)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reply, err = m.Reply(ctx, r, func(token string) { said += "|" + token })
	return reply, said, err
}

// whole answers with a reply.
func (api API) whole(s Said) func(Asked) Answer {
	return func(Asked) Answer { return Answer{Frames: api.Frames(s)} }
}

func call(id, name, args string) message.Block {
	return message.ToolCall(id, name, json.RawMessage(args))
}

func saying(blocks ...message.Block) Said {
	m := message.Message{Role: message.RoleAssistant, Blocks: blocks}
	used := orchestrator.Usage{Input: 1000, Output: 100}
	return Said{Reply: agent.Reply{Message: m, Usage: used}, Cached: 300, Written: 200}
}

// same compares what the model has said.
func same(t testing.TB, got agent.Reply, want ...message.Block) {
	t.Helper()
	if got.Message.Role != message.RoleAssistant || !reflect.DeepEqual(got.Message.Blocks, want) {
		t.Errorf("got  %s\nwant %s", got.Message.Blocks, want)
	}
}

// Words come one by one, and are counted. Strays are left out.
func says(t testing.TB, api API) {
	s := saying(message.Text("I look it up, Zoë."))
	got, said, err := api.reply(t, told, func(Asked) Answer {
		frames := api.Frames(s)
		return Answer{Frames: append(append(frames[:1:1], api.Strays...), frames[1:]...)}
	})
	if err != nil || got.Cut || said != "|I look| it up|, Zoë." {
		t.Fatalf("%q %+v %v", said, got, err)
	}
	same(t, got, s.Message.Blocks...)
	u, cost := got.Usage, (500*1+300*0.1+200*2+100*10)/1e6
	if u.Input != 1000 || u.Output != 100 || u.Model != "m-1" || u.Provider == "" || math.Abs(u.Cost-cost) > 1e-12 {
		t.Errorf("%+v", u)
	}
}

// Calls come at once, in pieces, under the ids of the vendor. The request has the instructions and the tools.
func asks(t testing.TB, api API) {
	s := saying(
		message.Text("Two things."), call("toolu_1", "lookup", `{"a":"x"}`), call("toolu_2", "refund", `{"order":"A"}`),
		call("toolu_3", "nothing", `{}`))
	got, _, err := api.reply(t, told, func(a Asked) Answer {
		if a.Instructions != told.Instructions || a.Model != "m-1" || a.MustCall || len(a.Strict) != 0 ||
			len(a.Tools) != 3 || a.Tools[0].Description != "looks up" || !reflect.DeepEqual(a.Said, told.Said) {
			t.Errorf("asked %+v", a)
		}
		for _, tool := range a.Tools {
			if !strings.Contains(string(tool.Parameters), `"properties":`) {
				t.Errorf("%s: %s", tool.Name, tool.Parameters)
			}
		}
		if (a.Marks > 0) != api.Marks {
			t.Errorf("%d marks for the cache", a.Marks)
		}
		return Answer{Frames: api.Frames(s)}
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, s.Message.Blocks...)
}

// In an agent with a Finish the model has to call a tool, and those whose schema allows it are strict.
func typed(t testing.TB, api API) {
	r := told
	r.MustCall = true
	_, _, err := api.reply(t, r, func(a Asked) Answer {
		if !a.MustCall || !reflect.DeepEqual(a.Strict, []string{"refund"}) {
			t.Errorf("asked %+v", a)
		}
		return Answer{Frames: api.Frames(saying(message.Text("x")))}
	})
	if err != nil {
		t.Error(err)
	}
}

// What the model has thought is kept with the vendor's signature, and given back unchanged: to this model, and to no
// other one.
func thinks(t testing.TB, api API) {
	if !api.Thinks {
		t.Skip("the API shows no thoughts")
	}
	thought := message.Reasoning("It is <b>&broken.", json.RawMessage(`"sig=="`))
	s := saying(thought, message.Text("I see."), call("c1", "nothing", "{}"))
	got, _, err := api.reply(t, told, api.whole(s))
	if err != nil {
		t.Fatal(err)
	}
	kept := got.Message.Blocks[0]
	if kept.Kind != message.KindReasoning || kept.Text != thought.Text || !strings.Contains(string(kept.Raw), "sig==") {
		t.Fatalf("%+v", kept)
	}
	stored, err := json.Marshal(got.Message)
	if err != nil {
		t.Fatal(err)
	}
	var again message.Message
	if err := json.Unmarshal(stored, &again); err != nil {
		t.Fatal(err)
	}
	result := message.Message{Role: "tool", Blocks: []message.Block{message.ToolResult("c1", "done", false)}}
	said := []message.Message{message.User("x"), again, result}
	for _, model := range []string{"m-1", "m-2"} {
		server := httptest.NewServer(api.Handler(func(a Asked) Answer {
			blocks := a.Said[1].Blocks
			if model == "m-2" {
				if len(blocks) != 2 {
					t.Errorf("another model sees %s", blocks)
				}
			} else if raw := string(blocks[0].Raw); !strings.Contains(raw, `\"sig==\"`) ||
				!strings.Contains(raw, "It is <b>&broken.") && !strings.Contains(raw, `\u003cb\u003e\u0026broken.`) {
				t.Errorf("given back: %s", raw)
			}
			return Answer{Frames: api.Frames(saying(message.Text("x")))}
		}))
		m, err := api.New(model, server.URL, "k", nil)
		if err == nil {
			_, err = m.Reply(t.Context(), agent.Request{Said: said}, func(string) {})
		}
		if server.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever an agent shows is what the API takes: results before words, no empty text, no thoughts of others.
func joins(t testing.TB, api API) {
	r := agent.Request{Said: []message.Message{
		message.Assistant("Hello."), message.User("a"), message.User("b"),
		{Role: message.RoleAssistant, Blocks: []message.Block{
			message.Reasoning("hm", json.RawMessage(`{"vendor":"nobody"}`)), message.Reasoning("hm", nil),
			call("c1", "lookup", `"no JSON"`), message.ToolCall("c2", "nothing", nil),
		}},
		{Role: "tool", Blocks: []message.Block{
			message.ToolResult("c1", "", true), message.ToolResult("c2", "found", false),
		}},
		message.User("and say when"), message.System("Be short."),
	}}
	_, _, err := api.reply(t, r, func(a Asked) Answer {
		var told []string
		for _, m := range a.Said {
			for _, b := range m.Blocks {
				if c, ok := b.Call(); ok {
					told = append(told, fmt.Sprintf("%s calls %s %s", m.Role, c.ID, argsOf(c)))
				} else if r, ok := b.Result(); ok {
					told = append(told, fmt.Sprintf("%s %s %q %t", m.Role, r.CallID, b.Text, r.IsError))
				} else {
					told = append(told, m.Role+" "+b.Text)
				}
			}
		}
		want := []string{
			"assistant Hello.", "user a", "user b", "assistant calls c1 no JSON", "assistant calls c2 {}",
			fmt.Sprintf(`tool c1 "" %t`, api.Fails), `tool c2 "found" false`, "user and say when",
		}
		if api.Marks {
			want = append([]string{"user Go on."}, want...)
		}
		got := strings.Join(told, "\n")
		if got = strings.TrimSuffix(got, "\nsystem Be short."); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		return Answer{Frames: api.Frames(saying(message.Text("x")))}
	})
	if err != nil {
		t.Error(err)
	}
}

// A reply that is cut off in the middle of any event, or ends behind it, is an error, and leaves no half call. Another
// attempt may help.
func cutOff(t testing.TB, api API) {
	s := saying(message.Text("Refunding."), call("c1", "refund", `{"order":"A-1042","cents":4200}`))
	frames := api.Frames(s)
	last := len(frames)
	if frames[last-1] == "data: [DONE]\n\n" { // what comes before has ended the reply
		last--
	}
	for i := range last {
		for _, end := range []string{"cut", ""} {
			n := i
			if end == "cut" {
				n++
			}
			got, _, err := api.reply(t, told, func(Asked) Answer { return Answer{Frames: frames[:n:n], End: end} })
			ended := end == "" && i > 0 && strings.Contains(frames[i-1], `"finish_reason":"tool_calls"`)
			if ended != (err == nil) || retry.IsPermanent(err) || !ended && len(got.Message.Blocks) > 0 {
				t.Errorf("%d %q: %+v, %v", i, end, got.Message, err)
			}
		}
	}
}
