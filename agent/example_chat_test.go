package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/turnhttp"
)

type (
	lookupOf struct {
		Order string `json:"order" jsonschema:"the number of the order, such as A-1042"`
	}
	refundOf struct {
		Order string `json:"order" jsonschema:"the number of the order"`
		Cents int    `json:"cents"`
	}
	chatMemory struct{ Refunded []string } // what the bot knows beside what was said
)

// A bank pays once for a key, and says what it has paid.
type bank map[string]string

func (b bank) refund(_ context.Context, key string, r refundOf) (receipt string, err error) {
	b[key] = "receipt for " + r.Order
	return b[key], nil
}

func (b bank) find(_ context.Context, key string) (receipt string, found bool, err error) {
	receipt, found = b[key]
	return receipt, found, nil
}

func supportAgent(model agent.Model, b bank, st agent.Stores) (*agent.Agent[chatMemory], error) {
	return agent.New(agent.Definition[chatMemory]{
		Name: "support", Model: model, Instructions: "You work for a shop.", MaxCost: 2, Window: 40,
		Tools: []agent.Tool{
			agent.Read("lookup", "looks an order up", func(context.Context, lookupOf) (string, error) {
				return "arrived broken", nil
			}),
			agent.ClientTool[struct{}]("photo", "a photo of the parcel, taken by the customer"),
			agent.Effect[refundOf, string]{
				Name: "refund", Description: "pays an order back", Run: b.refund,
				Class: ledger.Verifiable, Verify: b.find,
				Key:     func(r refundOf) string { return r.Order }, // an order is refunded once ever
				Approve: func(r refundOf) bool { return r.Cents > 100_00 },
			}.Tool(),
		},
		After: func(m *chatMemory, c agent.Call, r agent.Result) {
			if c.Name == "refund" && !r.Failed {
				m.Refunded = append(m.Refunded, r.Text)
			}
		},
	}, st, quiet)
}

// usersAndDesk lets users say things, and the desk answer.
func usersAndDesk(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
	who := turnhttp.Actor(r.Header.Get("X-User")) // of the session, in a program
	if who == "" {
		return "", errors.New("who are you?")
	}
	switch action {
	case turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionRead:
		return who, nil
	case turnhttp.ActionAnswer:
		if who == "desk" {
			return who, nil
		}
	}
	return "", turnhttp.ErrDenied
}

// A chat behind HTTP, with a tool that the customer's browser runs, and one that a person has to approve.
func ExampleHandler() {
	model := scripted.New(scripted.On(`(A-\d+)`,
		scripted.Call("lookup", `{"order":"{1}"}`).Call("photo", `{}`),
		scripted.Call("refund", `{"order":"{1}","cents":42000}`),
		scripted.Say("Done: {result}."),
	))
	a, err := supportAgent(model, bank{}, agent.InMemory())
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(agent.Handler(a, turnhttp.Options[agent.State[chatMemory]]{Authorize: usersAndDesk}))
	defer server.Close()
	type question struct {
		ID, Sum string
		Shown   json.RawMessage
	}
	var answer struct {
		Questions []question
		Reply     struct{ Status, Text string }
	}
	do := func(user, method, path, body string) int {
		r, err := http.NewRequest(method, server.URL+"/sessions/c-7"+path, strings.NewReader(body))
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("X-User", user)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k-1") // the client's, for each thing that is said
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
			log.Fatal(err)
		}
		return res.StatusCode
	}
	do("ann", "POST", "/turns", `{"message":"A-1042 is broken"}`)
	for _, given := range []string{`{"result":"a dent"}`, `{"approved":true}`} {
		do("desk", "GET", "/questions", "")
		q := answer.Questions[0]
		fmt.Println(string(q.Shown))
		body := fmt.Sprintf(`{"sum":%q,"answer":%s}`, q.Sum, given)
		fmt.Println("the user may not answer:", do("ann", "POST", "/questions/"+q.ID, body))
		do("desk", "POST", "/questions/"+q.ID, body)
		fmt.Printf("%s %q\n", answer.Reply.Status, answer.Reply.Text)
	}
	s, _, err := a.Get(context.Background(), "c-7")
	if err != nil {
		log.Fatal(err)
	}
	by, _ := s.AnsweredBy("call-3")
	fmt.Println(s.Custom.Refunded, "by", by)
	// Output:
	// {"agent":"support","kind":"client","tool":"photo","args":{}}
	// the user may not answer: 403
	// paused ""
	// {"agent":"support","kind":"approval","tool":"refund","args":{"order":"A-1042","cents":42000}}
	// the user may not answer: 403
	// completed "Done: receipt for A-1042."
	// [receipt for A-1042] by desk
}
