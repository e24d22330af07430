package turnhttp_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

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

// A bot asks a person before it pays. Its turn settles with the question in its state, and nothing waits. The answer
// may come days later, in another process. Two people answer: the first decides.
func ExampleOptions_questions() {
	type State struct {
		Asks string // the id of the question; "" if nothing is asked
		Text string
	}
	bot, err := orchestrator.New(orchestrator.Definition[State]{
		Name: "payer",
		Intents: orchestrator.Intents[State]{"pay": {Run: func(_ context.Context, t *orchestrator.Turn[State]) error {
			if t.State.Asks == "" {
				t.State.Asks, t.State.Text = "pay-7", "I have to ask."
				return nil
			}
			t.State.Asks, t.State.Text = "", t.Input.Text
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{Snapshots: new(snapshot.Memory)})
	if err != nil {
		log.Fatal(err)
	}
	h := turnhttp.Handler(bot, turnhttp.Options[State]{
		Authorize: turnhttp.Anyone,
		Reply:     func(res *orchestrator.Result[State]) any { return res.State.Text },
		Questions: func(s *State) []turnhttp.Question {
			if s.Asks == "" {
				return nil
			}
			return []turnhttp.Question{{ID: s.Asks, Shown: "Pay 250.00?"}}
		},
		Answer: func(_ turnhttp.Question, a turnhttp.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{Text: a.By + " says " + string(a.Data)}, nil
		},
		Inbox: new(inbox.Memory),
		Who:   func(r *http.Request) string { return r.URL.Query().Get("user") },
	})
	send(h, "POST", "/sessions/s1/turns", "key-1", `{"message": "pay 250"}`)
	for _, user := range []string{"ann", "bob", "ann"} {
		status, doc := send(h, "POST", "/sessions/s1/questions/pay-7?user="+user, "", `{"answer": true}`)
		_, said, replied := strings.Cut(doc, `"reply":`)
		if !replied {
			_, said, _ = strings.Cut(doc, `"title":`)
		}
		said, _, _ = strings.Cut(said, ",")
		fmt.Println(user, status, said)
	}
	// Output:
	// ann 200 "ann says true"
	// bob 409 "Another answer was first."
	// ann 200 "ann says true"
}
