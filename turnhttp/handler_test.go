package turnhttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/openapitest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A fixture is what a case of TestHandler starts from. prepare may change its fields.
type fixture struct {
	*testing.T
	w   *world
	def Definition
	bot *orchestrator.Options
	o   turnhttp.Options[State]

	// main is the process that serves the request. It is made by start.
	main *Bot
	h    http.Handler

	request *request
}

func (f *fixture) start() {
	if f.h == nil {
		f.main = f.w.bot(f.T, f.def, f.bot)
		f.h = turnhttp.Handler(f.main, f.o)
	}
}

// turn runs a turn before the request of the case.
func (f *fixture) turn(text string) {
	f.start()
	key := "before-" + text
	request{method: "POST", path: "/sessions/s/turns", key: key, body: `{"message":"` + text + `"}`}.to(f.Context(), f.h)
}

// held makes another process busy with session s.
func (f *fixture) held(on orchestrator.OnInterrupted) {
	other := f.w.bot(f.T, f.def, nil)
	ctx, cancel := context.WithCancel(f.Context())
	busy := other.Stream(ctx, "s", orchestrator.Input{Text: "slow x", RequestID: "other"}, nil)
	for ev := range busy.Events() {
		if ev.Kind == orchestrator.IntentStarted {
			break
		}
	}
	f.bot = &orchestrator.Options{OnInterrupted: on, Limits: orchestrator.Limits{LockWait: time.Second}}
	f.Cleanup(func() {
		cancel()
		_, _ = busy.Result()
	})
}

// left leaves a run in flight.
func (f *fixture) left() {
	other := f.w.bot(f.T, f.def, nil)
	ctx, cancel := context.WithTimeout(f.Context(), time.Second)
	defer cancel()
	if _, err := other.Execute(ctx, "s", orchestrator.Input{Text: "slow x", RequestID: "left"}, nil); err == nil {
		f.Fatal("the turn was not left")
	}
}

// parked leaves a parked run.
func (f *fixture) parked() {
	f.bot = &orchestrator.Options{Limits: orchestrator.Limits{Attempts: 1, LockWait: time.Second}}
	f.left()
	f.turn("say hi")
}

// owned makes another process the owner of session s.
func (f *fixture) owned() {
	r := checkpoint.ClaimRequest{Owner: "another", Nonce: "n", TTL: time.Minute}
	if _, err := f.w.checkpoints.Claim(f.Context(), keyOfS, r); err != nil {
		f.Fatal(err)
	}
}

// run returns the id of the run in flight.
func (f *fixture) run() string {
	for r, err := range f.w.snapshots.Runs(f.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
		if err != nil {
			f.Fatal(err)
		}
		return r.ID
	}
	f.Fatal("no run in flight")
	return ""
}

// effect returns the id of the only effect.
func (f *fixture) effect() string {
	for e, err := range f.w.effects.Effects(f.Context(), ledger.Query{}) {
		if err != nil {
			f.Fatal(err)
		}
		return e.ID
	}
	f.Fatal("no effect")
	return ""
}

// A handlerCase is a request, and what the client is told.
type handlerCase struct {
	name    string
	prepare func(*fixture)
	request request
	status  int
	kind    string // the type of the problem

	// says is part of the detail.
	says string
}

// routes are one good request of each route.
var routes = map[string]request{
	"turn":      {method: "POST", path: "/sessions/s/turns", key: "k", body: `{"message":"say hello"}`},
	"events":    {method: "GET", path: "/sessions/s/events"},
	"resume":    {method: "POST", path: "/sessions/s/resume", header: map[string]string{"Content-Type": "application/json"}},
	"unpark":    {method: "POST", path: "/sessions/s/unpark", header: map[string]string{"Content-Type": "application/json"}},
	"abandon":   {method: "POST", path: "/sessions/s/abandon", body: `{"run":"r"}`},
	"stop":      {method: "POST", path: "/sessions/s/stop", body: `{"run":"r"}`},
	"branch":    {method: "POST", path: "/sessions/s/branch", body: `{"session":"b","turn":0}`},
	"messages":  {method: "GET", path: "/sessions/s/messages"},
	"input":     {method: "GET", path: "/sessions/s/turns/k"},
	"session":   {method: "GET", path: "/sessions/s"},
	"questions": {method: "GET", path: "/sessions/s/questions"},
	"answer":    {method: "POST", path: "/sessions/s/questions/q1", body: answerBody(`"answer yes"`)},
	"effects":   {method: "GET", path: "/sessions/s/effects"},
	"effect":    {method: "POST", path: "/sessions/s/effects/e", body: `{"outcome":"skip"}`},
	"delete":    {method: "DELETE", path: "/sessions/s"},
}

// with returns a route with another body, key or path.
func with(route string, change func(*request)) request {
	q := routes[route]
	change(&q)
	return q
}

func says(text string) request {
	return with("turn", func(q *request) { q.body = `{"message":"` + text + `"}` })
}

func asking(f *fixture) { f.turn("ask q1 100") }

func handlerCases() (all []handlerCase) {
	all = slices.Concat(goodCases(), branchCases(), laterCases(), turnCases(), answerCases(), effectCases())
	for name, q := range routes {
		all = append(all, anyRoute(name, q)...)
		if q.body != "" {
			all = append(all, anyBody(name, q)...)
		}
	}
	return all
}

func goodCases() []handlerCase {
	return []handlerCase{
		{"turn", nil, routes["turn"], 200, "", ""},
		{"turn without data", nil, with("turn", func(q *request) { q.body = `{}` }), 200, "", ""},
		{"turn that failed and is settled", func(f *fixture) {
			f.def.OnFail = func(context.Context, *Turn, error) error { return nil }
		}, says("fail"), 200, "", ""},
		{"turn with events", nil, with("turn", func(q *request) {
			q.header = map[string]string{"Accept": "text/event-stream"}
		}), 200, "", ""},
		{"events", func(f *fixture) { f.turn("say hi") }, routes["events"], 200, "", ""},
		{"events of nothing", nil, routes["events"], 204, "", ""},
		{"events after the last", func(f *fixture) { f.turn("say hi") }, with("events", func(q *request) {
			q.path += "?after=6"
		}), 204, "", ""},
		{"events that are gone", nil, with("events", func(q *request) {
			q.header = map[string]string{"Last-Event-ID": "7"}
		}), 410, "gone", ""},
		{"events for too many readers", func(f *fixture) { f.o.MaxReaders = -1 }, routes["events"], 503, "too-many-readers", ""},
		{"events after what is no number", nil, with("events", func(q *request) { q.path += "?after=" + secret }), 400, "bad-request", "parameter after"},
		{"events after what is no number, in the header", nil, with("events", func(q *request) {
			q.header = map[string]string{"Last-Event-ID": secret}
		}), 400, "bad-request", "header Last-Event-ID"},
		{"events without a stream store", func(f *fixture) { f.w.events = nil }, routes["events"], 404, "no-stream", ""},
		{"resume", func(f *fixture) {
			f.left()
			close(f.w.hold)
		}, routes["resume"], 200, "", ""},
		{"resume of nothing", nil, routes["resume"], 204, "", ""},
		{"resume by a form", nil, with("resume", func(q *request) { q.header = nil }), 415, "content-type", "application/json"},
		{"unpark", (*fixture).parked, routes["unpark"], 200, "", ""},
		{"unpark of nothing", nil, routes["unpark"], 200, "", ""},
		{"unpark by a form", (*fixture).parked, with("unpark", func(q *request) { q.header = nil }), 415, "content-type", "application/json"},
		{"unpark that is busy", func(f *fixture) {
			f.parked()
			f.owned()
		}, routes["unpark"], 409, "busy", ""},
		{"turn with data", nil, with("turn", func(q *request) { q.body = `{"message":"hi","data":1}` }), 400, "bad-request", "message"},
		{"abandon of nothing", nil, routes["abandon"], 200, "", ""},
		{"session", func(f *fixture) { f.turn("say hi") }, with("session", func(q *request) { q.path += "?before=9&limit=3" }), 200, "", ""},
		{"session of nothing", nil, routes["session"], 200, "", ""},
		{"session at work", func(f *fixture) { f.held(0) }, routes["session"], 200, "", ""},
		{"session that waits", func(f *fixture) { f.turn("pay") }, routes["session"], 200, "", ""},
		{"session before what is no number", nil, with("session", func(q *request) { q.path += "?before=-1" }), 400, "bad-request", "parameter before"},
		{"session with a limit that is no number", nil, with("session", func(q *request) { q.path += "?limit=" + secret }), 400, "bad-request", "parameter limit"},
		{"abandon of what is no text", nil, with("abandon", func(q *request) { q.body = `{"run":{"hunter2":1}}` }), 400, "bad-request", "member run has to be a string"},
		{"messages", func(f *fixture) { f.turn("say hi") }, with("messages", func(q *request) { q.path += "?before=9&limit=3" }), 200, "", ""},
		{"messages of nothing", nil, routes["messages"], 200, "", ""},
		{"messages of a session at work", func(f *fixture) { f.held(0) }, routes["messages"], 200, "", ""},
		{"messages before what is no number", nil, with("messages", func(q *request) { q.path += "?before=" + secret }), 400, "bad-request", "parameter before"},
		{"messages with a limit that is no number", nil, with("messages", func(q *request) { q.path += "?limit=-1" }), 400, "bad-request", "parameter limit"},
		{"messages without a Chat", func(f *fixture) { f.o.Chat = nil }, routes["messages"], 404, "not-found", ""},
		{"messages that cannot be read", func(f *fixture) { f.o.Chat = talk{err: errors.New(secret)} }, routes["messages"], 500, "internal", ""},
		{"stop of nothing", nil, routes["stop"], 200, "", ""},
		{"stop without a Chat", func(f *fixture) { f.o.Chat = nil }, routes["stop"], 404, "not-found", ""},
		{"stop of no run", nil, with("stop", func(q *request) { q.body = `{}` }), 400, "bad-request", "member run is missing"},
		{"delete", func(f *fixture) { f.turn("say hi") }, routes["delete"], 204, "", ""},
		{"document", nil, request{method: "GET", path: "/openapi.json"}, 200, "", ""},
		{"no route", nil, request{method: "GET", path: "/sessions/s/nothing"}, 404, "not-found", ""},
		{"no route at the top", nil, request{method: "GET", path: "/"}, 404, "not-found", ""},
		{"empty session", nil, request{method: "GET", path: "/sessions/"}, 400, "bad-request", ""},
	}
}

func branchCases() []handlerCase {
	to := func(body string) request { return with("branch", func(q *request) { q.body = body }) }
	fails := func(err error) func(*fixture) { return func(f *fixture) { f.o.Chat = talk{err: err} } }
	return []handlerCase{
		{"branch", nil, routes["branch"], 201, "", ""},
		{"branch of the newest turn", nil, to(`{"session":"b"}`), 201, "", ""},
		{"branch without a Chat", func(f *fixture) { f.o.Chat = nil }, routes["branch"], 404, "not-found", ""},
		{"branch of a turn that is not there", fails(checkpoint.ErrNotFound), routes["branch"], 404, "not-found", "no longer"},
		{"branch of a turn that cannot be", nil, to(`{"session":"b","turn":2147483647}`), 404, "not-found", "no longer"},
		{"branch to a session that exists", fails(checkpoint.ErrConflict), routes["branch"], 409, "conflict", ""},
		{"branch to itself", nil, to(`{"session":"s"}`), 409, "conflict", ""},
		{"branch to nothing", nil, to(`{"turn":0}`), 400, "bad-request", "member session"},
		{"branch to an empty name", nil, to(`{"session":""}`), 400, "bad-request", "member session"},
		{"branch to a name of 513 bytes", nil, to(`{"session":"` + strings.Repeat("b", 513) + `"}`), 400, "bad-request", "member session"},
		{"branch to what is no text", nil, to(`{"session":["hunter2"]}`), 400, "bad-request", "member session"},
		{"branch of turn -1", nil, to(`{"session":"b","turn":-1}`), 400, "bad-request", "member turn"},
		{"branch of turn 1.5", nil, to(`{"session":"b","turn":1.5}`), 400, "bad-request", "member turn"},
		{"branch of what is no number", nil, to(`{"session":"b","turn":"hunter2"}`), 400, "bad-request", "member turn"},
	}
}

// later asks that a turn run later.
func later(text string) request {
	q := says(text)
	q.header = map[string]string{"Prefer": "respond-async"}
	return q
}

// queues makes the bot one that accepts inputs for later. It runs those that are accepted before the request.
func queues(all ...request) func(*fixture) {
	return func(f *fixture) {
		f.bot = &orchestrator.Options{Inbox: f.w.answers, Limits: orchestrator.Limits{Queue: 1, Attempts: 1}}
		f.start()
		for _, q := range all {
			q.to(f.Context(), f.h)
		}
	}
}

// runs runs what waits.
func (f *fixture) runs() {
	for session, err := range f.main.Recoverable(f.Context(), true) {
		if err == nil {
			_, _ = f.main.Recover(f.Context(), session)
		}
	}
}

func laterCases() []handlerCase {
	of := func(key string) request {
		return with("input", func(q *request) { q.path = "/sessions/s/turns/" + key })
	}
	other := later("say more")
	other.key = "other"
	return []handlerCase{
		{"later", queues(), later("say hi"), 202, "", ""},
		{"later again", queues(later("say hi")), later("say hi"), 202, "", ""},
		{"later, by a bot without an inbox", nil, later("say hi"), 200, "", ""},
		{"later, with too many before it", queues(other), later("say hi"), 429, "queue-full", ""},
		{"later, with a key of another input", queues(later("say more")), later("say hi"), 422, "request-reused", ""},
		{"later, without a key", queues(), with("turn", func(q *request) {
			q.key, q.header = "", map[string]string{"Prefer": "respond-async"}
		}), 400, "key-missing", ""},
		{"input that waits", queues(later("say hi")), routes["input"], 200, "", ""},
		{"input at work", func(f *fixture) { f.held(0) }, of("other"), 200, "", ""},
		{"input that waits for a person", func(f *fixture) { f.turn("pay") }, of("before-pay"), 200, "", ""},
		{"input that has settled", func(f *fixture) { f.turn("say hi") }, of("before-say%20hi"), 200, "", ""},
		{"input that was refused", func(f *fixture) {
			queues(later("refuse"))(f)
			f.runs()
		}, routes["input"], 200, "", ""},
		{"input that has failed", func(f *fixture) {
			queues(later("fail"))(f)
			f.runs()
		}, routes["input"], 200, "", ""},
		{"input of nothing", queues(), routes["input"], 404, "not-found", ""},
		{"input under drift", func(f *fixture) { f.drifted() }, of("drifted"), 409, "drift", ""},
		{"input with an empty key", nil, of(""), 400, "bad-request", "name in the path"},
	}
}

func turnCases() []handlerCase {
	return []handlerCase{
		{"no key", nil, with("turn", func(q *request) { q.key = "" }), 400, "key-missing", ""},
		{"no key, and none needed", func(f *fixture) { f.o.OptionalKey = true }, with("turn", func(q *request) { q.key = "" }), 200, "", ""},
		{"key of 513 bytes", nil, with("turn", func(q *request) { q.key = strings.Repeat("k", 513) }), 400, "bad-request", ""},
		{"key of 10 KiB", nil, with("turn", func(q *request) { q.key = strings.Repeat("k", 10<<10) }), 400, "bad-request", ""},
		{"key with U+0000", nil, with("turn", func(q *request) { q.key = secret + "\x00" }), 400, "bad-request", ""},
		{"key that is no UTF-8", nil, with("turn", func(q *request) { q.key = "k\xff" }), 400, "bad-request", ""},
		{"key of an answer", nil, with("turn", func(q *request) { q.key = "turnhttp/answer/" + secret }), 400, "bad-request", ""},
		{"key used for another input", func(f *fixture) { f.turn("say hi") }, with("turn", func(q *request) {
			q.key = "before-say hi"
		}), 422, "request-reused", ""},
		{"input of the bot's own", nil, says("refuse"), 422, "invalid", ""},
		{"input too large", func(f *fixture) { f.bot = &orchestrator.Options{Limits: orchestrator.Limits{Input: 8}} }, says("say hello you"), 422, "invalid", ""},
		{"own Input fails", func(f *fixture) {
			f.o.Input = func(*http.Request) (orchestrator.Input, error) {
				return orchestrator.Input{}, errors.New(secret)
			}
		}, routes["turn"], 400, "bad-request", ""},
		{"own Input refuses", func(f *fixture) {
			f.o.Input = func(*http.Request) (orchestrator.Input, error) {
				return orchestrator.Input{}, &orchestrator.InputError{Field: "text", Reason: "not taken"}
			}
		}, routes["turn"], 422, "invalid", ""},
		{"message that is no text", nil, with("turn", func(q *request) { q.body = `{"message":["hunter2"]}` }), 400, "bad-request", "member message has to be a string"},
		{"busy", func(f *fixture) { f.held(0) }, routes["turn"], 409, "busy", ""},
		{"interrupted", func(f *fixture) {
			f.left()
			f.bot = &orchestrator.Options{OnInterrupted: orchestrator.Reject}
		}, routes["turn"], 409, "interrupted", ""},
		{"parked", func(f *fixture) {
			f.bot = &orchestrator.Options{Limits: orchestrator.Limits{Attempts: 1}}
			f.left()
			f.o.TurnTimeout = time.Second
			f.turn("say hi")
		}, routes["turn"], 409, "parked", ""},
		{"owed", func(f *fixture) {
			f.bot = &orchestrator.Options{RequireDelivered: true}
			f.def.Deliver = func(context.Context, *orchestrator.Result[State]) error { return errors.New(secret) }
			f.turn("say hi")
		}, routes["turn"], 409, "owed", ""},
		{"drift", func(f *fixture) { f.drifted() }, routes["turn"], 409, "drift", ""},
		{"own turn waits", nil, says("pay"), 202, "suspended", ""},
		{"earlier turn waits", func(f *fixture) { f.turn("pay") }, routes["turn"], 409, "suspended", ""},
		{"bot fails", nil, says("fail"), 502, "bot-failed", ""},
		{"bot panics", nil, says("panic"), 502, "bot-failed", ""},
		{"unknown outcome", func(f *fixture) { f.o.TurnTimeout = time.Second }, says("slow x"), 504, "unknown-outcome", ""},
		{"turn takes too long", func(f *fixture) {
			f.bot = &orchestrator.Options{Limits: orchestrator.Limits{TurnTimeout: time.Second}}
		}, says("slow x"), 504, "timeout", ""},
		{"resume waits", func(f *fixture) { f.turn("pay") }, routes["resume"], 202, "suspended", ""},
		{"resume that is busy", func(f *fixture) { f.held(0) }, routes["resume"], 409, "busy", ""},
		{"resume with an unknown outcome", func(f *fixture) {
			f.left()
			f.o.TurnTimeout = time.Second
		}, routes["resume"], 504, "unknown-outcome", ""},
		{"resume fails", func(f *fixture) {
			f.left()
			f.def.Intents["do"] = orchestrator.Intent[State]{
				Run: func(context.Context, *Turn) error { return errors.New(secret) },
			}
		}, routes["resume"], 502, "bot-failed", ""},
		{"reply that JSON lacks", func(f *fixture) {
			f.o.Reply = func(*orchestrator.Result[State]) any { return func() {} }
		}, routes["turn"], 500, "internal", ""},
	}
}

func answerCases() []handlerCase {
	to := func(body string) request { return with("answer", func(q *request) { q.body = body }) }
	return []handlerCase{
		{"questions", asking, routes["questions"], 200, "", ""},
		{"answer", asking, routes["answer"], 200, "", ""},
		{"answer with events", asking, with("answer", func(q *request) {
			q.header = map[string]string{"Accept": "text/event-stream"}
		}), 200, "", ""},
		{"answer to nothing", nil, routes["answer"], 404, "not-found", ""},
		{"answer to another question", func(f *fixture) { f.turn("ask q2 1") }, routes["answer"], 404, "not-found", ""},
		{"answer without Questions", func(f *fixture) { f.o.Questions = nil }, routes["answer"], 404, "not-found", ""},
		{"answer to what has changed", asking, to(`{"answer":"answer yes","sum":"x"}`), 409, "changed", ""},
		{"answer after another", func(f *fixture) {
			asking(f)
			with("answer", func(q *request) { q.header = map[string]string{"Who": "bob"} }).to(f.Context(), f.h)
		}, routes["answer"], 409, "answered", ""},
		{"answer while another is at work", func(f *fixture) {
			asking(f)
			_, _ = f.w.answers.Post(f.Context(), inbox.Item{
				Key: inbox.Key{Orchestrator: "bot", Session: "s"}, Kind: inbox.Answer, ID: "q1", By: "bob",
			})
		}, routes["answer"], 409, "answered", ""},
		{"expired", func(f *fixture) {
			f.def.Intents["do"] = orchestrator.Intent[State]{Run: func(_ context.Context, t *Turn) error {
				t.State.Asks, t.State.Cents, t.State.Due = "q1", 100, time.Now().Add(-time.Hour)
				return nil
			}}
			asking(f)
		}, routes["answer"], 410, "expired", ""},
		{"answer without its sum", asking, to(`{"answer":"answer yes"}`), 400, "bad-request", "sum"},
		{"answer that is missing", asking, to(`{"sum":"x"}`), 400, "bad-request", ""},
		{"answer that Answer does not take", asking, to(answerBody(`1`)), 400, "bad-request", ""},
		{"answer of nobody", asking, with("answer", func(q *request) { q.header = map[string]string{"Who": ""} }), 401, "unauthorized", ""},
		{"answer whose turn waits", asking, to(answerBody(`"pay"`)), 202, "suspended", ""},
		{"answer that fails", asking, to(answerBody(`"answer fail"`)), 502, "bot-failed", ""},
		{"answer that the bot refuses", asking, to(answerBody(`"refuse"`)), 422, "invalid", ""},
		{"answer with an unknown outcome", func(f *fixture) {
			f.o.TurnTimeout = time.Second
			asking(f)
		}, to(answerBody(`"answer hold"`)), 504, "unknown-outcome", ""},
		{"questions under drift", func(f *fixture) { f.drifted() }, routes["questions"], 409, "drift", ""},
		{"session under drift", func(f *fixture) { f.drifted() }, routes["session"], 200, "", ""},
	}
}

func effectCases() []handlerCase {
	paying := func(f *fixture) { f.turn("pay") }
	return []handlerCase{
		{"effects", paying, routes["effects"], 200, "", ""},
		{"effect", func(f *fixture) {
			paying(f)
			f.request.path = "/sessions/s/effects/" + f.effect()
		}, routes["effect"], 200, "", ""},
		{"effect that landed", func(f *fixture) {
			paying(f)
			f.request.path = "/sessions/s/effects/" + f.effect()
		}, with("effect", func(q *request) { q.body = `{"outcome":"landed","value":"receipt"}` }), 200, "", ""},
		{"effect that was answered so before", func(f *fixture) {
			paying(f)
			f.request.path = "/sessions/s/effects/" + f.effect()
			f.request.to(f.Context(), f.h)
		}, routes["effect"], 200, "", ""},
		{"effect that was answered otherwise before", func(f *fixture) {
			paying(f)
			f.request.path = "/sessions/s/effects/" + f.effect()
			f.request.to(f.Context(), f.h)
			f.request.header = map[string]string{"Who": "bob"}
		}, routes["effect"], 409, "answered", ""},
		{"effect that is under way", func(f *fixture) {
			f.paysSlowly()
			f.request.path = "/sessions/s/effects/" + f.effect()
		}, routes["effect"], 409, "held", ""},
		{"effect of another session", func(f *fixture) {
			paying(f)
			f.request.path = "/sessions/s2/effects/" + f.effect()
		}, routes["effect"], 404, "not-found", ""},
		{"effect of nobody", paying, with("effect", func(q *request) { q.header = map[string]string{"Who": ""} }), 401, "unauthorized", ""},
		{"effects without a ledger", func(f *fixture) { f.o.Ledger = nil }, routes["effects"], 200, "", ""},
		{"effect without a ledger", func(f *fixture) { f.o.Ledger = nil }, routes["effect"], 404, "not-found", ""},
		{"effect that is not there", paying, routes["effect"], 404, "not-found", ""},
		{"effect with no outcome", paying, with("effect", func(q *request) { q.body = `{"outcome":"x"}` }), 400, "bad-request", ""},
		{"effect that did not land with a value", paying, with("effect", func(q *request) {
			q.body = `{"outcome":"skip","value":1}`
		}), 400, "bad-request", ""},
	}
}

// paysSlowly leaves a process at work on an effect.
func (f *fixture) paysSlowly() {
	other := f.w.bot(f.T, f.def, nil)
	ctx, cancel := context.WithCancel(f.Context())
	paying := other.Stream(ctx, "s", orchestrator.Input{Text: "pay slowly", RequestID: "other"}, nil)
	synctest.Wait()
	f.Cleanup(func() {
		cancel()
		_, _ = paying.Result()
	})
}

// drifted stores a state that this bot would lose something of.
func (f *fixture) drifted() {
	type later struct {
		State
		More string
	}
	bot, err := orchestrator.New(orchestrator.Definition[later]{
		Name: "bot", Intents: orchestrator.Intents[later]{"do": {
			Run: func(_ context.Context, t *orchestrator.Turn[later]) error {
				t.State.More = secret
				return nil
			},
		}},
	}, f.w.checkpoints, &Options{Snapshots: f.w.snapshots})
	if err == nil {
		_, err = bot.Execute(f.Context(), "s", orchestrator.Input{Text: "say hi", RequestID: "drifted"}, nil)
	}
	if err = errors.Join(err, bot.Shutdown(f.Context())); err != nil {
		f.Fatal(err)
	}
}

// anyRoute are the errors that each route has.
func anyRoute(name string, q request) []handlerCase {
	in := func(change func(*request)) request {
		c := q
		change(&c)
		return c
	}
	all := []handlerCase{
		{name + " by a stranger", nil, in(func(q *request) { q.header = map[string]string{"Authorization": "wrong"} }), 401, "unauthorized", ""},
		{name + " by another", nil, in(func(q *request) { q.header = map[string]string{"Authorization": "other"} }), 403, "denied", ""},
		{name + " with another method", nil, in(func(q *request) { q.method = "PATCH" }), 405, "method", ""},
		{name + " of 513 bytes", nil, in(func(q *request) {
			q.path = strings.Replace(q.path, "/s", "/s"+strings.Repeat("s", 0), 1)
			q.path = strings.Replace(q.path, "/sessions/s", "/sessions/"+strings.Repeat("s", 513), 1)
		}), 400, "bad-request", ""},
		{name + " with U+0000", nil, in(func(q *request) {
			q.path = strings.Replace(q.path, "/sessions/s", "/sessions/s%00", 1)
		}), 400, "bad-request", ""},
		{name + " of no UTF-8", nil, in(func(q *request) {
			q.path = strings.Replace(q.path, "/sessions/s", "/sessions/s%ff", 1)
		}), 400, "bad-request", ""},
	}
	all = append(all, awayCases(name, q)...)
	if _, takes := membersOf[name]; !takes { // the body is read all the same
		all = append(all,
			handlerCase{name + " with a body that is slow", nil, in(func(q *request) { q.slow = true }), 408, "slow-request", ""},
			handlerCase{name + " with a body above MaxBody", nil, in(func(q *request) {
				q.body = strings.Repeat("x", 2<<20)
			}), 413, "too-large", ""})
	}
	switch name {
	case "turn", "resume", "abandon", "delete":
		all = append(all, handlerCase{name + " while shutting down", func(f *fixture) {
			if name == "resume" || name == "abandon" {
				f.left()
				f.request.body = strings.Replace(f.request.body, `"r"`, `"`+f.run()+`"`, 1)
			}
			f.start()
			if err := f.main.Shutdown(f.Context()); err != nil {
				f.Error(err)
			}
		}, q, 503, "shutting-down", ""})
	}
	return all
}

// membersOf are the members of the bodies of each route.
var membersOf = map[string]string{
	"turn": "message", "abandon": "run", "stop": "run", "branch": "session, turn", "answer": "answer, sum",
	"effect": "outcome, value",
}

// anyBody are the errors of each route that has a body.
func anyBody(name string, q request) []handlerCase {
	body := func(body string) request {
		q.body = body
		return q
	}
	all := []handlerCase{{name + " of another content type", nil, with(name, func(q *request) {
		q.header = map[string]string{"Content-Type": "text/hunter2"}
	}), 415, "content-type", ""}}
	says := map[string]string{
		"no JSON": "no JSON", "an array": "may have these members: " + membersOf[name], "an unknown member": "The member colour is not known. The body may have these members: " + membersOf[name],
		"an unknown member of any name": "A member is not known. The body may",
		"more behind it":                "more behind", "half a value behind it": "more behind", "white space only": "empty", "U+0000": "U+0000",
	}
	all[0].says = "application/json"
	for what, doc := range map[string]string{
		"no JSON": `{"hunter2`, "an array": `["hunter2"]`, "null": `null`, "text": `"hunter2"`,
		"an unknown member": `{"colour":"hunter2"}`, "an unknown member of any name": `{"hunter2 pays":1}`, "more behind it": q.body + `{"hunter2":1}`, "half a value behind it": q.body + `hunter2`, "no UTF-8": "{\"message\":\"\xff\"}", "U+0000": `{"message":"\u0000"}`,
		"half a surrogate": `{"message":"\ud800"}`, "great depth": strings.Repeat("[", 20_000),
		"white space only": " ",
	} {
		all = append(all, handlerCase{name + " with " + what, nil, body(doc), 400, "bad-request", says[what]})
	}
	slow := with(name, func(q *request) { q.slow = true })
	all = append(all, handlerCase{name + " that is slow", nil, slow, 408, "slow-request", ""})
	return append(all, handlerCase{name + " above MaxBody", nil, body(`{"message":"` + strings.Repeat("x", 1<<20) + `"}`), 413, "too-large", ""})
}

// Each route answers each error with its status and its type, and nothing of what the error says. The OpenAPI document
// has all of these.
func TestHandler(t *testing.T) {
	doc := openAPI(t)
	for _, c := range handlerCases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, doc) })
		})
	}
	wantAllDocumented(t, doc)
}

func (c handlerCase) run(t *testing.T, doc *openapitest.Document) {
	w := newWorld()
	q := c.request
	f := &fixture{T: t, w: w, def: w.definition(), o: w.options(), request: &q}
	told := 0
	f.o.OnError = func(*http.Request, error) { told++ }
	if c.prepare != nil {
		c.prepare(f)
	}
	f.start()
	time.Sleep(time.Second) // what was shown is stored
	told = 0
	res := q.to(t.Context(), f.h)
	body := res.Body.Bytes()
	if (told > 0) != (res.Code >= 500) {
		t.Errorf("OnError is told %d times of a %d", told, res.Code)
	}
	if res.Code != c.status || typeOf(body) != c.kind {
		t.Fatalf("%d %s, want %d %s\n%s", res.Code, typeOf(body), c.status, c.kind, body)
	}
	if err := doc.Check(q.method, q.path, res.Code, res.Header().Get("Content-Type"), body); err != nil {
		t.Errorf("OpenAPI: %v\n%s", err, body)
	}
	if c.kind == "bad-request" || c.kind == "content-type" || c.says != "" {
		if p := decode[struct{ Detail string }](t, body); p.Detail == "" ||
			c.says != "" && !strings.Contains(p.Detail, c.says) {
			t.Errorf("it says %q, want %q", p.Detail, c.says)
		}
	}
	c.wantHeaders(t, res)
	if c.prepare == nil && c.status >= 400 && c.status < 422 {
		w.wantNothing(t)
	}
	if strings.Contains(res.Body.String()+fmt.Sprint(res.Header()), secret) {
		t.Errorf("the response says too much:\n%s", body)
	}
}

func (c handlerCase) wantHeaders(t *testing.T, res *httptest.ResponseRecorder) {
	t.Helper()
	h := res.Header()
	if h.Get("X-Content-Type-Options") != "nosniff" {
		t.Error("browsers may guess the type")
	}
	if !strings.HasPrefix(h.Get("Cache-Control"), "no-store") && c.request.path != "/openapi.json" {
		t.Error("caches may keep it")
	}
	if c.status == http.StatusMethodNotAllowed && h.Get("Allow") == "" {
		t.Error("405 without Allow")
	}
	if (c.status == 429 || c.status == 503 || c.status == 504) && h.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// wantAllDocumented reports what the document has and no case has reached.
func wantAllDocumented(t *testing.T, doc *openapitest.Document) {
	t.Helper()
	for _, at := range doc.Unseen() {
		t.Errorf("no case has %s", at)
	}
}

// A turn that OnFail has settled says that it failed, also to a repeat. Another turn does not.
func TestTurnThatFailed(t *testing.T) {
	w := newWorld()
	d := w.definition()
	d.OnFail = func(_ context.Context, t *Turn, _ error) error { t.State.Text = "sorry"; return nil }
	h := turnhttp.Handler(w.bot(t, d, nil), w.options())
	other := says("say hi")
	other.header = map[string]string{"Idempotency-Key": "another"}
	for _, c := range []struct {
		q      request
		failed bool
	}{{says("fail"), true}, {says("fail"), true}, {other, false}} {
		res := c.q.to(t.Context(), h)
		if got := decode[struct{ Failed bool }](t, res.Body.Bytes()); res.Code != 200 || got.Failed != c.failed {
			t.Errorf("%d %s, want failed %t", res.Code, res.Body, c.failed)
		}
	}
}
