package uichat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

const (
	submit     = "submit-message"
	regenerate = "regenerate-message"
)

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got\n%v, want\n%v", what, got, want)
	}
}

// A turn is one message, with the id of its run, its usage and a finish. A repeat is the reply again.
func TestText(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "hello"))
	want(t, "text", a.text(), "1: you said hello")
	finish := a.of("finish")[0]
	usage := finish["messageMetadata"].(map[string]any)["usage"].(map[string]any)
	want(t, "finish", finish["finishReason"], "stop")
	want(t, "usage", usage, map[string]any{"inputTokens": 10, "outputTokens": 5, "totalTokens": 15, "cost": 0.5})
	again := post(t, s, "ann", submit, "", user("m1", "hello"))
	want(t, "again", again.text()+again.message(), a.text()+a.message())
	want(t, "calls of the model", s.asked.Load(), 1)
	want(t, "history", s.history(t), "user m1 hello | assistant 1: you said hello")
	var h struct{ Messages []struct{ ID string } }
	if err := json.Unmarshal([]byte(do(t, s, "ann", "GET", "/x/s/messages", "").body), &h); err != nil {
		t.Fatal(err)
	}
	want(t, "id in the history", h.Messages[1].ID, a.message())
}

// A tool is shown with its input and its output or error, in the step of its call, and with what the model thought.
func TestTools(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "look A1"))
	want(t, "input", a.of("tool-input-available")[0]["input"], map[string]any{"order": "A1"})
	want(t, "output", a.of("tool-output-available")[0]["output"], map[string]any{"cents": 250, "order": "A1"})
	want(t, "reasoning", a.of("reasoning-delta")[0]["delta"], "I need look.")
	want(t, "steps", len(a.of("start-step")), 2)
	b := post(t, s, "ann", submit, "", user("m2", "look none"))
	want(t, "error", b.of("tool-output-error")[0]["errorText"], "no such order")
	want(t, "history", s.history(t), `user m1 look A1 | assistant output-available Done: {"cents":250,"order":"A1"} | `+
		"user m2 look none | assistant output-error Done: no such order")
}

// What a tool was given and has found can be hidden, also from the history.
func TestHide(t *testing.T) {
	s := newShop(t, &uichat.Options{Part: func(p turnhttp.Part) turnhttp.Part {
		if p.Type == turnhttp.PartText {
			return p
		}
		return turnhttp.Part{}
	}})
	a := post(t, s, "ann", submit, "", user("m1", "look A1"))
	for _, kind := range []string{"tool-input-available", "tool-output-available", "reasoning-start"} {
		want(t, kind, len(a.of(kind)), 0)
	}
	want(t, "history", s.history(t), `user m1 look A1 | assistant Done: {"cents":250,"order":"A1"}`)
}

// A person grants or denies a call natively. The desk alone may, the first answer counts, and a repeat is the same.
func TestApproval(t *testing.T) {
	for _, approved := range []bool{true, false} {
		s := newShop(t, nil)
		a := post(t, s, "ann", submit, "", user("m1", "refund A1"))
		want(t, "requests", len(a.of("tool-approval-request")), 1)
		want(t, "finish", a.of("finish")[0]["finishReason"], "tool-calls")
		want(t, "history", s.history(t), "user m1 refund A1 | assistant approval-requested")
		q := user("m1", "refund A1")
		want(t, "by ann", post(t, s, "ann", submit, a.message(), q, a.approves(approved)).code, 403)
		b := post(t, s, "desk", submit, a.message(), q, a.approves(approved))
		want(t, "message", b.message(), a.message())
		kind, refunds, state := "tool-output-denied", 0, "output-error"
		if approved {
			kind, refunds, state = "tool-output-available", 1, "output-available"
		}
		want(t, kind, len(b.of(kind)), 1)
		want(t, "refunds", s.refunds.Load(), refunds)
		if got := s.history(t); !strings.HasPrefix(got, "user m1 refund A1 | assistant "+state+" Done: ") {
			t.Error(got)
		}
		again := post(t, s, "desk", submit, a.message(), q, a.approves(approved))
		want(t, "repeat", again.text(), b.text())
		want(t, "result of the repeat", fmt.Sprint(again.of(kind)[0]["output"]), fmt.Sprint(b.of(kind)[0]["output"]))
		other := post(t, s, "desk", submit, a.message(), q, a.approves(!approved))
		want(t, "another answer", fmt.Sprint(other.code, strings.Contains(other.body, "answered")), "409 true")
		want(t, "refunds", s.refunds.Load(), refunds)
	}
}

// Two answers of one message are two turns, and the page sees what came of both.
func TestTwoAnswers(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "both A1"))
	want(t, "requests", len(a.of("tool-approval-request")), 2)
	b := post(t, s, "desk", submit, a.message(), user("m1", "both A1"), a.approves(true))
	want(t, "outputs", len(b.of("tool-output-available")), 2)
	want(t, "refunds", s.refunds.Load(), 2)
}

// A page runs a client tool: it is asked once the turn waits, and its output is an answer.
func TestClientTool(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "photo A1"))
	calls := a.of("tool-input-available")
	want(t, "calls", fmt.Sprint(calls[0]["providerExecuted"], calls[1]["providerExecuted"]), "true false")
	part := map[string]any{
		"type": "dynamic-tool", "toolName": "photo", "toolCallId": calls[1]["toolCallId"], "state": "output-available",
		"output": map[string]any{"url": "p.png"}, "callProviderMetadata": calls[1]["providerMetadata"],
	}
	b := post(t, s, "ann", submit, a.message(), user("m1", "photo A1"),
		map[string]any{"id": a.message(), "role": "assistant", "parts": []any{part}})
	want(t, "text", b.text(), `Done: {"url":"p.png"}`)
	want(t, "message", b.message(), a.message())
}

// An edit, and another reply, are one turn each. The session sees what is said now, and nothing behind it.
func TestEdit(t *testing.T) {
	s := newShop(t, nil)
	first := post(t, s, "ann", submit, "", user("m1", "one"))
	post(t, s, "ann", submit, "", user("m2", "two"))
	post(t, s, "ann", submit, "", user("m3", "three"))
	edit := func() answer { return post(t, s, "ann", submit, "m2", user("m1", "one"), user("m2", "zwei")) }
	a := edit()
	want(t, "edit", a.text(), "2: you said zwei")
	want(t, "its repeat", edit().text()+edit().message(), a.text()+a.message())
	want(t, "history", s.history(t),
		"user m1 one | assistant 1: you said one | user m2 zwei | assistant 2: you said zwei")
	again := func() answer {
		return post(t, s, "ann", regenerate, a.message(), user("m1", "one"), user("m2", "zwei"))
	}
	asked := s.asked.Load()
	b := again()
	want(t, "another reply", b.text(), "2: you said zwei")
	if b.message() == a.message() {
		t.Error("the other reply has the id of the first")
	}
	want(t, "its repeat", again().message(), b.message())
	want(t, "calls of the model", s.asked.Load()-asked, 1)
	back := post(t, s, "ann", submit, "m2", user("m1", "one"), user("m2", "two"))
	want(t, "an edit back", back.text(), "2: you said two")
	want(t, "and forth", post(t, s, "ann", submit, "m2", user("m2", "zwei")).text(), "2: you said zwei")
	stale := post(t, s, "ann", regenerate, a.message(), user("m2", "two"))
	want(t, "another reply in the place of one that is gone", stale.code, 422)
	want(t, "an edit of the first", post(t, s, "ann", submit, "m1", user("m1", "uno")).text(), "1: you said uno")
	want(t, "a repeat of the first", post(t, s, "ann", submit, "", user("m1", "one")).message(), first.message())
	want(t, "history", s.history(t), "user m1 uno | assistant 1: you said uno")
}

// An edit ends what waits, and an answer to it comes too late.
func TestEditWhatWaits(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "refund A1"))
	want(t, "edit", post(t, s, "ann", submit, "m1", user("m1", "hello")).text(), "1: you said hello")
	late := post(t, s, "desk", submit, a.message(), user("m1", "refund A1"), a.approves(true))
	want(t, "late answer", late.code, 404)
	want(t, "refunds", s.refunds.Load(), 0)
}

// An edit waits for the turn in flight. The history shows what is in flight.
func TestEditInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, nil)
		var all [3]answer
		done := make(chan struct{}, 3)
		say := func(i int, trigger, id string, m any) {
			go func() {
				all[i] = post(t, s, "ann", trigger, id, m)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		say(0, submit, "", user("m1", "wait"))
		want(t, "history", s.history(t), "user m1 wait")
		say(1, submit, "m1", user("m1", "hello"))
		say(2, submit, "m1", user("m1", "hello")) // a repeat
		close(s.hold)
		for range all {
			<-done
		}
		want(t, "replies", all[0].text()+"|"+all[1].text()+"|"+all[2].text(),
			"Wait. Over.|1: you said hello|1: you said hello")
		want(t, "history", s.history(t), "user m1 hello | assistant 1: you said hello")
		want(t, "calls of the model", s.asked.Load(), 2)
	})
}

// A page that was loaded again follows the turn in flight, and stops it.
func TestResumeAndStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, nil)
		want(t, "nothing in flight", do(t, s, "ann", "GET", "/api/chat/s/stream", "").code, 204)
		var first, again answer
		done := make(chan struct{}, 2)
		go func() { first = post(t, s, "ann", submit, "", user("m1", "wait")); done <- struct{}{} }()
		synctest.Wait()
		go func() { again = do(t, s, "ann", "GET", "/api/chat/s/stream", ""); done <- struct{}{} }()
		synctest.Wait()
		want(t, "stop", do(t, s, "ann", "POST", "/api/chat/s/stop", "").body, `{"stopping":true}`+"\n")
		<-done
		<-done
		want(t, "the page that was loaded again", again.text()+again.message(), first.text()+first.message())
		want(t, "finish", len(first.of("finish")), 1)
		want(t, "stop", do(t, s, "ann", "POST", "/api/chat/s/stop", "").body, `{"stopping":false}`+"\n")
	})
}

// A late chat calls a function before it reads the messages.
type late struct {
	turnhttp.Chat
	before func()
}

func (c late) Messages(
	ctx context.Context, session string, before, limit int,
) (all []message.Message, first int, err error) {
	c.before()
	return c.Chat.Messages(ctx, session, before, limit)
}

// A turn that settles while the history is read is there once, with its reply.
func TestHistorySettlesMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, nil)
		o := s.agent.Options(turnhttp.Options[state]{Authorize: may})
		o.Chat = late{o.Chat, func() {
			close(s.hold)
			synctest.Wait()
		}}
		done := make(chan struct{})
		go func() { post(t, s, "ann", submit, "", user("m1", "wait")); close(done) }()
		synctest.Wait()
		s.Handler = uichat.Handler(s.agent.Bot(), o, nil)
		want(t, "history", s.history(t), "user m1 wait | assistant Wait. Over.")
		<-done
	})
}

// What a model has said before it failed is taken back, and the reply is not sent as if it were one. The text of the
// error stays here.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, nil)
		s.fails.Store(true)
		a := post(t, s, "ann", submit, "", user("m1", "hello"))
		want(t, "errors, finishes", fmt.Sprint(len(a.of("error")), len(a.of("finish"))), "1 0")
		if len(a.of("reset-step")) == 0 || strings.Contains(a.body, "4711") {
			t.Error(a.body)
		}
		s.fails.Store(false)
		again := post(t, s, "ann", regenerate, "", user("m1", "hello"))
		want(t, "once more", again.text(), "1: you said hello")
		s.fails.Store(true)
		a = post(t, s, "ann", submit, "m1", user("m1", "hallo"))
		want(t, "an edit fails", len(a.of("error")), 1)
		want(t, "history", s.history(t), "user m1 hello | assistant 1: you said hello")
		s.fails.Store(false)
		again = post(t, s, "ann", regenerate, a.message(), user("m1", "hallo"))
		want(t, "once more", again.text(), "1: you said hallo")
		want(t, "history", s.history(t), "user m1 hallo | assistant 1: you said hallo")
	})
}

// Files go to the program, or are refused.
func TestFiles(t *testing.T) {
	m := user("m1", "look at this")
	m["parts"] = append(m["parts"].([]any), map[string]any{
		"type": "file", "mediaType": "text/plain", "filename": "a.txt", "url": "data:text/plain,hi",
	})
	a := post(t, newShop(t, nil), "ann", submit, "", m)
	want(t, "refused", fmt.Sprint(a.code, strings.Contains(a.body, "/problems/no-files")), "415 true")
	s := newShop(t, &uichat.Options{File: func(_ *http.Request, session string, f uichat.File) (string, error) {
		return "[" + session + " " + f.Name + " " + f.MediaType + " " + f.URL + "]", nil
	}})
	want(t, "taken", s.history(t), "")
	post(t, s, "ann", submit, "", m)
	if got := s.history(t); !strings.HasPrefix(got, "user m1 look at this\n[s a.txt text/plain data:text/plain,hi]") {
		t.Error(got)
	}
}

// A bot that keeps its turns only talks, and its history is there. What was said cannot be changed.
func TestOtherBot(t *testing.T) {
	h := echoes(t)
	fail := post(t, h, "ann", submit, "", user("m1", "fail"))
	want(t, "error", len(fail.of("error")), 1)
	want(t, "once more", len(post(t, h, "ann", regenerate, "", user("m1", "fail")).of("error")), 1)
	a := post(t, h, "ann", regenerate, "", user("m1", "hello"))
	want(t, "text", a.text(), "You said: hello")
	want(t, "repeat", post(t, h, "ann", submit, "m1", user("m1", "hello")).text(), "You said: hello")
	for _, b := range []answer{
		post(t, h, "ann", submit, "m1", user("m1", "hallo")),
		post(t, h, "ann", regenerate, a.message(), user("m1", "hello")),
	} {
		want(t, "edit", fmt.Sprint(b.code, strings.Contains(b.body, "/problems/no-edit")), "409 true")
	}
	want(t, "no stream", do(t, h, "ann", "GET", "/api/chat/s/stream", "").code, 404)
	if got := do(t, h, "ann", "GET", "/api/chat/s/messages", "").body; !strings.Contains(got, `"text":"hello"`) ||
		!strings.Contains(got, `"text":"You said: hello"`) {
		t.Error(got)
	}
}

// What no page of the AI SDK sends is refused, and nothing is run or answered.
func TestHostile(t *testing.T) {
	s := newShop(t, nil)
	a := post(t, s, "ann", submit, "", user("m1", "refund A1"))
	many := user("m2", "x")
	for range 1000 {
		many["parts"] = append(many["parts"].([]any), map[string]any{"type": "tool-x", "state": "approval-responded"})
	}
	approvals := a.approves(true)
	for range 100 {
		approvals["parts"] = append(approvals["parts"].([]any), approvals["parts"].([]any)[0])
	}
	odd := func(id string) map[string]any {
		m := a.approves(true)
		m["parts"].([]any)[0].(map[string]any)["approval"] = map[string]any{"id": id, "approved": true}
		return m
	}
	system := user("m2", "x")
	system["role"] = "system"
	whole := map[string]any{"type": "text", "text": 7}
	parts := func(role string, all ...any) map[string]any {
		return map[string]any{"id": "m2", "role": role, "parts": append([]any{}, all...)}
	}
	for name, c := range map[string]struct {
		got  answer
		code int
	}{
		"no JSON":            {do(t, s, "ann", "POST", "/api/chat", "hello"), 400},
		"no object":          {do(t, s, "ann", "POST", "/api/chat", "[1]"), 400},
		"null":               {do(t, s, "ann", "POST", "/api/chat", "null"), 400},
		"no messages":        {post(t, s, "ann", submit, ""), 400},
		"no trigger":         {post(t, s, "ann", "", "", user("m2", "x")), 400},
		"another trigger":    {post(t, s, "ann", "resume-stream", "", user("m2", "x")), 400},
		"of the system":      {post(t, s, "ann", submit, "", system), 400},
		"1000 odd parts":     {post(t, s, "ann", submit, "", many), 400},
		"no id":              {post(t, s, "ann", submit, "", user("", "x")), 400},
		"U+0000 in an id":    {post(t, s, "ann", submit, "", user("a\x00b", "x")), 400},
		"a long id":          {post(t, s, "ann", submit, "", user(strings.Repeat("x", 513), "x")), 400},
		"an id of the desk":  {post(t, s, "ann", submit, "", user("turnhttp/answer/1", "x")), 400},
		"an id of ours":      {post(t, s, "ann", submit, "", user("uichat/1", "x")), 400},
		"an id of the agent": {post(t, s, "ann", submit, "", user("answer 1 c", "x")), 422},
		"another messageId":  {post(t, s, "ann", submit, "m9", user("m2", "x")), 400},
		"odd parts":          {post(t, s, "ann", submit, "", parts("user", whole)), 400},
		"no text":            {post(t, s, "ann", submit, "", user("m2", " ")), 422},
		"a call waits":       {post(t, s, "ann", submit, "", user("m2", "hello")), 422},
		"answers by ann":     {post(t, s, "ann", submit, a.message(), a.approves(true)), 403},
		"nothing answered":   {post(t, s, "desk", submit, "", parts("assistant")), 400},
		"100 answers":        {post(t, s, "desk", submit, "", approvals), 400},
		"no sum":             {post(t, s, "desk", submit, "", odd("call-1")), 404},
		"another sum":        {post(t, s, "desk", submit, "", odd("0000/call-1")), 409},
		"another call":       {post(t, s, "desk", submit, "", odd("0000/call-9")), 404},
		"nobody":             {post(t, s, "", submit, "", user("m2", "x")), 401},
		"another method":     {do(t, s, "ann", "DELETE", "/api/chat", ""), 405},
		"a page that lies":   {do(t, s, "ann", "GET", "/api/chat/s/messages?before=-1", ""), 400},
		"an odd session":     {do(t, s, "ann", "GET", "/api/chat/%00/messages", ""), 400},
	} {
		want(t, name, c.got.code, c.code)
		if c.code != c.got.code {
			t.Log(c.got.body)
		}
	}
	want(t, "refunds", s.refunds.Load(), 0)
	want(t, "calls of the model", s.asked.Load(), 1)
	want(t, "another session", do(t, s, "ann", "GET", "/api/chat/other/messages", "").body, `{"messages":[]}`+"\n")
}
