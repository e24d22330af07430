package turnhttp_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// actions are the actions of the routes.
var actions = map[string]turnhttp.Action{
	"turn": turnhttp.ActionTurn, "events": turnhttp.ActionFollow, "resume": turnhttp.ActionResume,
	"abandon": turnhttp.ActionAbandon, "session": turnhttp.ActionRead, "questions": turnhttp.ActionRead,
	"answer": turnhttp.ActionAnswer, "effects": turnhttp.ActionRead, "effect": turnhttp.ActionResolve,
	"delete": turnhttp.ActionDelete, "messages": turnhttp.ActionFollow, "stop": turnhttp.ActionStop,
	"branch": turnhttp.ActionBranch, "input": turnhttp.ActionFollow, "unpark": turnhttp.ActionUnpark,
}

// Each route asks for one action first, and works for whoever has that one only. Anyone may read, talk and follow.
// TestActionClient has the action that two routes ask for next.
func TestActions(t *testing.T) {
	for name, q := range routes {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			asked(t, w)
			var action turnhttp.Action
			o := w.options()
			bot := w.bot(t, w.definition(), nil)
			for _, allowed := range []bool{true, false} {
				o.Authorize = func(_ *http.Request, session string, a turnhttp.Action) (turnhttp.Actor, error) {
					if session == "b" && a == turnhttp.ActionTurn { // the new session of a branch
						return "ann", nil
					}
					if action = cmp.Or(action, a); session != "s" ||
						(a == actions[name]) != allowed || a == turnhttp.ActionClient {
						return "", turnhttp.ErrDenied
					}
					return "ann", nil
				}
				action = ""
				status := q.to(t.Context(), turnhttp.Handler(bot, o)).Code
				if action != actions[name] || (status == 403) == allowed {
					t.Errorf("it asks for %q, and with that allowed: %t, it is %d", action, allowed, status)
				}
			}
			o.Authorize = turnhttp.Anyone
			talks := name == "turn" || q.method == "GET"
			if status := q.to(t.Context(), turnhttp.Handler(bot, o)).Code; (status == 403) == talks {
				t.Errorf("for Anyone it is %d", status)
			}
		})
	}
}

// ActionClient is enough for questions to the client's side, before and after they are answered. Of others it shows and
// answers none, and it never says who has answered.
func TestActionClient(t *testing.T) {
	for client, want := range map[bool]struct{ shown, answered int }{true: {1, 200}, false: {0, 403}} {
		w := newWorld()
		o := w.options()
		questions := o.Questions
		o.Questions = func(s *State) (all []approval.Question) {
			for _, q := range questions(s) {
				q.Client = client
				all = append(all, q)
			}
			return all
		}
		bot := w.bot(t, w.definition(), nil)
		desk := turnhttp.Handler(bot, o)
		o.Authorize = turnhttp.Allow("ann", turnhttp.ActionClient)
		page := turnhttp.Handler(bot, o)
		says("ask q1 100").to(t.Context(), desk)
		one := with("questions", func(q *request) { q.path += "?id=q1" })
		for _, answer := range []string{"yes", "yes"} { // the second is a repeat
			if q := questionsOf(t, page); len(q) > want.shown {
				t.Errorf("client %t: it is shown %+v", client, q)
			}
			if res := answering("ann", answer).to(t.Context(), page); res.Code != want.answered {
				t.Errorf("client %t: the answer is told %d %s", client, res.Code, res.Body)
			}
			if !client {
				answering("ann", answer).to(t.Context(), desk)
			}
			body := one.to(t.Context(), page).Body.String()
			if strings.Contains(body, `"answered":true`) != client || strings.Contains(body, "ann") {
				t.Errorf("client %t: then it is shown %s", client, body)
			}
		}
		if w.ran.Load() != 2 {
			t.Errorf("client %t: the bot ran %d times", client, w.ran.Load())
		}
		for _, name := range []string{"session", "effects", "turn", "effect", "messages", "events", "stop", "delete"} {
			if status := routes[name].to(t.Context(), page).Code; status != 403 {
				t.Errorf("client %t: %s is %d", client, name, status)
			}
		}
	}
}

// An Authorize that forgets to say who it is lets nobody in.
func TestNoActor(t *testing.T) {
	w := newWorld()
	o := w.options()
	for _, actor := range []turnhttp.Actor{"", "a\x00", "\xff", turnhttp.Actor(strings.Repeat("a", 513))} {
		o.Authorize = func(*http.Request, string, turnhttp.Action) (turnhttp.Actor, error) { return actor, nil }
		if res := says("say hi").to(t.Context(), turnhttp.Handler(w.bot(t, w.definition(), nil), o)); res.Code != 401 {
			t.Errorf("actor %q is %d", actor, res.Code)
		}
	}
	w.wantNothing(t)
}

// noteInput is a bot that shows who has sent its input, and as what.
func noteInput(d Definition) Definition {
	d.Intents = orchestrator.Intents[State]{"note": {Run: func(_ context.Context, t *Turn) error {
		in := t.Input
		t.State.Text = fmt.Sprintf("%s by %s: %s %s", in.Origin, in.By, in.Text, in.Data)
		t.State.Asks, t.State.Cents = "q1", 100
		return nil
	}}}
	return d
}

// The handler says where an input comes from and who has sent it, whatever the functions of the program return.
func TestOrigin(t *testing.T) {
	w := newWorld()
	o := w.options()
	lies := orchestrator.Input{Origin: orchestrator.FromSystem, By: "root"}
	o.Input = func(*http.Request) (orchestrator.Input, error) { return lies, nil }
	o.Answer = func(approval.Question, approval.Answer) (orchestrator.Input, error) { return lies, nil }
	h := turnhttp.Handler(w.bot(t, noteInput(w.definition()), nil), o)
	for _, c := range []struct {
		request
		want string
	}{{says("hi"), "user by ann:  "}, {answering("bob", "yes"), "answer by bob:  "}} {
		res := c.to(t.Context(), h)
		if turn := decode[turnOf](t, res.Body.Bytes()); turn.Reply != c.want {
			t.Errorf("the bot saw %q, want %q: %d %s", turn.Reply, c.want, res.Code, res.Body)
		}
	}
}

// An answer of the inbox, which another process has left, is an answer of whoever gave it.
func TestOriginOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		bot := w.bot(t, noteInput(w.definition()), nil)
		says("hi").to(t.Context(), turnhttp.Handler(bot, w.options()))
		it := inbox.Item{Key: keyOfS, Kind: inbox.Answer, ID: "q1", By: "ada", Data: []byte(`"yes"`)}
		if _, err := w.answers.Post(t.Context(), it); err != nil {
			t.Fatal(err)
		}
		ctx, end := context.WithCancel(t.Context())
		defer end()
		settled := make(chan struct{})
		defer bot.Subscribe(func(ev orchestrator.Event) {
			if ev.Kind == orchestrator.TurnSettled {
				close(settled)
			}
		})()
		go func() { _ = w.options().Desk(bot).Run(ctx) }()
		<-settled
		for res, err := range bot.Turns(t.Context(), "s") {
			if err != nil || !strings.HasPrefix(res.State.Text, "answer by ada:") {
				t.Errorf("the bot saw %q: %v", res.State.Text, err)
			}
			break
		}
	})
}

// The sum that comes with a question is good for this question, this text and this session. So an answer to what a
// person saw elsewhere, or before, is refused, also if the bot uses an id again.
func TestSumIsBound(t *testing.T) {
	w := newWorld()
	here, _ := asked(t, w)
	elsewhere := map[string]string{
		"no sum":          "",
		"another session": sumOf("t", "q1", map[string]int{"cents": 100}),
		"another id":      sumOf("s", "q2", map[string]int{"cents": 100}),
		"another text":    sumOf("s", "q1", map[string]int{"cents": 10}),
		"the text only":   inboxSum(t, map[string]int{"cents": 100}),
	}
	for name, sum := range elsewhere {
		q := with("answer", func(q *request) { q.body = fmt.Sprintf(`{"answer":"answer yes","sum":%q}`, sum) })
		if res := q.to(t.Context(), here); res.Code != 409 && sum != "" || res.Code < 400 {
			t.Errorf("the sum of %s is told %d %s", name, res.Code, res.Body)
		}
	}
	if w.ran.Load() != 1 || w.left(t) != 0 {
		t.Errorf("the bot ran %d times, and %d answers are left", w.ran.Load(), w.left(t))
	}
	again := says("ask q1 900000") // the bot uses the id for another amount
	again.key = "k2"
	again.to(t.Context(), here)
	if res := routes["answer"].to(t.Context(), here); res.Code != 409 || typeOf(res.Body.Bytes()) != "changed" {
		t.Errorf("an answer to the amount before is told %d %s", res.Code, res.Body)
	}
}

func inboxSum(t *testing.T, shown any) string {
	t.Helper()
	sum, err := inbox.Sum(shown)
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// The customer may talk, and nothing else, and knows everything but the credentials of the desk.
func TestCustomerApprovesNothing(t *testing.T) {
	w := newWorld()
	paid := 0
	d := w.definition()
	d.Begin = nil
	d.Intents = orchestrator.Intents[State]{"refund": {Run: func(_ context.Context, t *Turn) error {
		if t.Input.Origin == orchestrator.FromAnswer && string(t.Input.Data) == `{"approve":true}` {
			paid++
		}
		t.State.Asks, t.State.Cents = "q1", 100
		return nil
	}}}
	o := w.options()
	o.Answer = func(_ approval.Question, a approval.Answer) (orchestrator.Input, error) {
		return orchestrator.Input{Data: a.Data}, nil
	}
	o.Authorize = func(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
		if who := r.Header.Get("Who"); who == "desk" {
			return "desk", nil
		}
		return turnhttp.Anyone(r, "", action)
	}
	h := turnhttp.Handler(w.bot(t, d, nil), o)
	answer := fmt.Sprintf(`{"answer":{"approve":true},"sum":%q}`, sumOfQ1)
	post := func(who, path, key, body string) int {
		return request{
			method: "POST", path: "/sessions/s" + path, key: key, body: body, header: map[string]string{"Who": who},
		}.to(t.Context(), h).Code
	}
	if post("ben", "/turns", "k", `{"message":"refund"}`) != 200 {
		t.Fatal("the customer may not talk")
	}
	// The request id of the answer is no secret: it stands in the turn that takes one like it.
	for i, body := range []string{
		`{"message":"hi","data":{"approve":true}}`, `{"message":"","data":{"approve":true},"origin":"answer"}`,
		`{"message":"{\"approve\":true}"}`, `{"Origin":"answer","By":"desk","Data":{"approve":true}}`, answer,
	} {
		for _, key := range []string{fmt.Sprint("k", i), "turnhttp/answer/x", "answer to r"} {
			post("ben", "/turns", key, body)
		}
	}
	for path, body := range map[string]string{
		"/questions/q1": answer, "/effects/e": `{"outcome":"not-landed"}`, "/abandon": `{"run":"r"}`, "/resume": `{}`,
		"/unpark": `{}`,
	} {
		if status := post("ben", path, "", body); status != 403 {
			t.Errorf("POST %s of the customer is %d", path, status)
		}
	}
	if paid != 0 {
		t.Fatalf("the customer was paid %d times", paid)
	}
	if status := post("desk", "/questions/q1", "", answer); status != 200 || paid != 1 {
		t.Errorf("the desk is told %d, and %d were paid", status, paid)
	}
}

// Who has answered for an effect stands in its row, and what says so is the Actor.
func TestActorOfEffect(t *testing.T) {
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	says("pay").to(t.Context(), h)
	for e, err := range w.effects.Effects(t.Context(), ledger.Query{Orchestrator: "bot", Session: "s"}) {
		if err != nil {
			t.Fatal(err)
		}
		q := request{method: "POST", path: "/sessions/s/effects/" + e.ID, body: `{"outcome":"skip"}`}
		if res := q.to(t.Context(), h); res.Code != 200 {
			t.Errorf("the answer is told %d %s", res.Code, res.Body)
		}
	}
	for e, err := range w.effects.Effects(t.Context(), ledger.Query{Orchestrator: "bot", Session: "s"}) {
		if err != nil || e.AnsweredBy != "ann" {
			t.Errorf("the row says %q: %v", e.AnsweredBy, err)
		}
	}
}

// requestBefore is the request id that an earlier version gave the answer to "ask q1 100".
func requestBefore(t *testing.T) string {
	t.Helper()
	h := sha256.Sum256([]byte(inboxSum(t, map[string]int{"cents": 100}) + " q1"))
	return "turnhttp/answer/" + hex.EncodeToString(h[:16])
}

// A process of an earlier version has left an answer, and died in its turn. A process of this version has finished that
// turn as one of a user, for it has no origin. The bot still asks, so the answer is not lost, and is taken once.
func TestAnswerOfEarlierVersion(t *testing.T) {
	for name, again := range map[string]string{"by Answers": "", "by its sender": "ann", "by another": "bob"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				d := w.definition()
				approved := 0
				d.Intents = orchestrator.Intents[State]{"note": {Run: func(_ context.Context, t *Turn) error {
					if t.State.Asks, t.State.Cents = "q1", 100; t.Input.Origin == orchestrator.FromAnswer {
						approved++
						t.State.Asks = ""
					}
					return nil
				}}}
				bot := w.bot(t, d, nil)
				h := turnhttp.Handler(bot, w.options())
				says("hi").to(t.Context(), h)
				before := orchestrator.Input{RequestID: requestBefore(t), Text: "answer yes"}
				if _, err := bot.Execute(t.Context(), "s", before, nil); err != nil {
					t.Fatal(err)
				}
				it := inbox.Item{
					Key: keyOfS, Kind: inbox.Answer, ID: "q1", By: "ann", Data: []byte(`"answer yes"`),
					Shown: inboxSum(t, map[string]int{"cents": 100}),
				}
				if _, err := w.answers.Post(t.Context(), it); err != nil {
					t.Fatal(err)
				}
				if again != "" {
					res := answering(again, "yes").to(t.Context(), h)
					if want := map[string]int{"ann": 200, "bob": 409}[again]; res.Code != want {
						t.Errorf("%s is told %d %s", again, res.Code, res.Body)
					}
				}
				ctx, end := context.WithTimeout(t.Context(), time.Minute)
				defer end()
				_ = w.options().Desk(bot).Run(ctx)
				if approved != 1 || w.left(t) != 0 {
					t.Errorf("it was approved %d times, and %d answers are left", approved, w.left(t))
				}
			})
		})
	}
}

// A process of an earlier version has settled the turn of an answer. A repeat of the answer runs nothing.
func TestRepeatOfEarlierVersion(t *testing.T) {
	w := newWorld()
	here, _ := asked(t, w)
	before := orchestrator.Input{RequestID: requestBefore(t), Text: "answer yes", Data: []byte(`{"by":"ann"}`)}
	if _, err := w.bot(t, w.definition(), nil).Execute(t.Context(), "s", before, nil); err != nil {
		t.Fatal(err)
	}
	if res := answering("ann", "yes").to(t.Context(), here); res.Code != 404 || w.ran.Load() != 2 || w.left(t) != 0 {
		t.Errorf("it is told %d %s, and the bot ran %d times", res.Code, res.Body, w.ran.Load())
	}
}

// The bot still asks after its turn has taken an answer. The same answer of another person was not the first.
func TestSameAnswerOfAnother(t *testing.T) {
	w := newWorld()
	o := w.options()
	o.Answer = func(_ approval.Question, a approval.Answer) (orchestrator.Input, error) {
		return orchestrator.Input{Data: a.Data}, nil
	}
	h := turnhttp.Handler(w.bot(t, noteInput(w.definition()), nil), o)
	says("hi").to(t.Context(), h)
	for _, c := range []struct {
		who  string
		want int
	}{{"ann", 200}, {"bob", 409}, {"ann", 200}} {
		if res := answering(c.who, "yes").to(t.Context(), h); res.Code != c.want {
			t.Errorf("%s is told %d %s, want %d", c.who, res.Code, res.Body, c.want)
		}
	}
	if w.left(t) != 0 {
		t.Errorf("%d answers are left", w.left(t))
	}
}
