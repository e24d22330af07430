package scripted_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// result is what a call that a script has made has brought.
func result(text string) message.Message {
	return message.Message{Role: "tool", Blocks: []message.Block{message.ToolResult("call-1", text, false)}}
}

func call(id, tool, args string) message.Message {
	b := message.ToolCall(id, tool, []byte(args))
	return message.Message{Role: message.RoleAssistant, Blocks: []message.Block{b}}
}

// The next reply is a function of what was said.
func TestReply(t *testing.T) {
	down := errors.New("down")
	model := scripted.New(
		scripted.On(`pay (.+) now`,
			scripted.Say("Paying {1}.").Call("pay", `{"order":"{1}"}`),
			scripted.Call("tell", map[string]string{"text": "{result}"}),
			scripted.Say("{result}")),
		scripted.On("fail", scripted.Fail(down)),
		scripted.On("odd", scripted.Call("odd", make(chan int))),
		scripted.On("^$", scripted.Say("Say something.")),
	)
	model.Usage = orchestrator.Usage{Input: 3, Cost: 0.5}
	user := message.User
	for name, c := range map[string]struct {
		said []message.Message
		want string // of the text and the calls, or of the error
	}{
		"first":  {[]message.Message{user("pay A now")}, `Paying A. call-1 pay {"order":"A"}`},
		"quoted": {[]message.Message{user(`pay "A" now`)}, `Paying "A". call-1 pay {"order":"\"A\""}`},
		"second": {
			[]message.Message{user("pay A now"), call("call-1", "pay", `{}`), result(`"x"`)},
			`call-2 tell {"text":"\"x\""}`,
		},
		"last turn": {[]message.Message{call("a", "pay", "{}"), result("x"), user("")}, "Say something."},
		"third": {
			[]message.Message{
				user("pay A now"), call("a", "pay", "{}"), result("x"), call("b", "tell", "{}"), result("y"),
			}, "y",
		},
		"no third": {
			[]message.Message{user("fail"), message.Assistant("x")}, `scripted: the rule "fail" has no reply 2`,
		},
		"nothing": {nil, "Say something."},
		"no rule": {[]message.Message{user("hello")}, `scripted: no rule for "hello"`},
		"fails":   {[]message.Message{user("fail")}, "down"},
		"no JSON": {[]message.Message{user("odd")}, "scripted: arguments of odd: json: unsupported type: chan int"},
	} {
		t.Run(name, func(t *testing.T) {
			var told strings.Builder
			r, err := model.Reply(t.Context(), agent.Request{Said: c.said}, func(s string) { told.WriteString(s) })
			got := told.String()
			for _, b := range r.Message.Blocks {
				if c, ok := b.Call(); ok {
					got += " " + c.ID + " " + c.Name + " " + string(c.Args)
				}
			}
			if err != nil {
				got = err.Error()
			}
			if got = strings.TrimSpace(got); got != c.want || r.Usage != model.Usage {
				t.Errorf("got %s, want %s; %+v", got, c.want, r.Usage)
			}
		})
	}
}

// The words of a reply come one by one, until somebody stops it.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := scripted.New(scripted.On("", scripted.Say("one two three")))
		model.Delay = time.Second
		begun, told := time.Now(), ""
		token := func(word string) { told += word + time.Since(begun).String() + " " }
		if _, err := model.Reply(t.Context(), agent.Request{}, token); err != nil {
			t.Error(err)
		}
		if want := "one 1s two 2s three3s "; told != want {
			t.Errorf("got %q, want %q", told, want)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		told = ""
		_, err := model.Reply(ctx, agent.Request{}, token)
		if !errors.Is(err, context.DeadlineExceeded) || told != "one 4s " {
			t.Errorf("%v, %q", err, told)
		}
	})
}
