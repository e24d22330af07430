package turnhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// send sends a request to a handler, and returns the status and the body.
func send(h http.Handler, method, path, key, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	doc, err := io.ReadAll(w.Result().Body)
	if err != nil {
		log.Fatal(err)
	}
	return w.Code, string(doc)
}

// A client that got no reply sends its request again, with the same key, and gets the reply. The bot answers once.
func ExampleHandler() {
	type State struct{ Count int }
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "counter",
		Intents: orchestrator.Intents[State]{"count": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			t.State.Count++
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory), Stream: new(stream.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	h := turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize: turnhttp.Anyone,
		Reply:     func(res *orchestrator.Result[State]) any { return res.State.Count },
	})
	for range 2 {
		status, doc := send(h, "POST", "/sessions/s1/turns", "key-1", `{"message": "one more"}`)
		_, doc, _ = strings.Cut(doc, `"reply":`)
		reply, _, _ := strings.Cut(doc, ",\"usage")
		fmt.Println(status, reply)
	}
	status, doc := send(h, "POST", "/sessions/s1/turns", "key-1", `{"message": "another"}`)
	fmt.Println(status, strings.TrimSpace(doc))
	// Output:
	// 200 1,"replayed":false
	// 200 1,"replayed":true
	// 422 {"type":"/problems/request-reused","title":"This request id was used for another input.","status":422}
}

// mayPay lets customers talk in their own sessions. The desk looks at all of them, and answers what the bot asks.
func mayPay(r *http.Request, session string, action turnhttp.Action) (turnhttp.Actor, error) {
	user := r.URL.Query().Get("user") // a service knows its users by a cookie or a token
	desk := user == "ann" || user == "bob"
	switch action {
	case turnhttp.ActionTurn, turnhttp.ActionFollow:
		if user == session {
			return turnhttp.Actor(user), nil
		}
	case turnhttp.ActionRead, turnhttp.ActionAnswer, turnhttp.ActionResolve:
		if desk {
			return turnhttp.Actor(user), nil
		}
	}
	return "", turnhttp.ErrDenied // the actions that are not named, too
}

// A bot asks a person before it pays. Its turn settles with the question in its state, and nothing waits. The answer
// may come days later, in another process. The customer may not give it. Two people of the desk answer: the first
// decides.
func ExampleOptions_questions() {
	type State struct {
		Asks string // the id of the question; "" if nothing is asked
		Text string
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "payer",
		Intents: orchestrator.Intents[State]{"pay": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			if t.Input.Origin == orchestrator.FromAnswer && t.State.Asks != "" {
				t.State = State{Text: t.Input.By + " says " + t.Input.Text}
				return nil
			}
			t.State = State{Asks: approval.NewID(), Text: "I have to ask."}
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	h := turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize: mayPay,
		Reply:     func(res *orchestrator.Result[State]) any { return res.State.Text },
		Questions: func(s *State) []approval.Question {
			if s.Asks == "" {
				return nil
			}
			return []approval.Question{{ID: s.Asks, Shown: "Pay 250.00?"}}
		},
		Answer: func(_ approval.Question, a approval.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{Text: string(a.Data)}, nil
		},
		Inbox: new(inbox.Memory),
	})
	send(h, "POST", "/sessions/eve/turns?user=eve", "key-1", `{"message": "pay 250"}`)
	_, doc := send(h, "GET", "/sessions/eve/questions?user=ann", "", "")
	var asked struct{ Questions []struct{ ID, Sum string } }
	if err := json.Unmarshal([]byte(doc), &asked); err != nil {
		log.Fatal(err)
	}
	q := asked.Questions[0]
	for _, user := range []string{"eve", "ann", "bob", "ann"} {
		path := "/sessions/eve/questions/" + q.ID + "?user=" + user
		status, doc := send(h, "POST", path, "", fmt.Sprintf(`{"answer": true, "sum": %q}`, q.Sum))
		_, said, replied := strings.Cut(doc, `"reply":`)
		if !replied {
			_, said, _ = strings.Cut(doc, `"title":`)
		}
		said, _, _ = strings.Cut(said, ",")
		fmt.Println(user, status, said)
	}
	// Output:
	// eve 403 "The client may not do this."
	// ann 200 "ann says true"
	// bob 409 "Another answer was first."
	// ann 200 "ann says true"
}
