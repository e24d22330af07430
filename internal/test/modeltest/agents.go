package modeltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models/scripted"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// handler tells the key of each request.
func handler(told func(key string), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Api-Key")
		if key == "" {
			key = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		}
		told(key)
		next.ServeHTTP(w, r)
	})
}

type (
	order struct {
		Order string `json:"order"`
	}
	none   struct{}
	memory struct{ Refunded []string }
)

// An agent asks again after a reply that was cut off, 429 and 529, and comes to its end. A reply that never ends is
// given up, and on a slow machine another one too.
func talks(t testing.TB, api API) {
	var failed, paid atomic.Int32
	frames := api.Frames(saying(call("c1", "refund", `{"order":"A"}`)))
	failures := []Answer{
		{Frames: frames[:len(frames)-2], End: "cut"},
		{Status: 429, Header: map[string]string{"Retry-After-Ms": "1"}, Body: api.Fault("rate_limit_error", "slow")},
		{Frames: frames[:2], End: "hang"},
		{Status: 529, Body: api.Fault("overloaded_error", "busy")},
	}
	server := httptest.NewServer(api.Handler(func(a Asked) Answer {
		if err := agent.Valid(a.Said, nil); err != nil {
			t.Error(err)
		}
		switch n := int(failed.Add(1)); {
		case n <= len(failures):
			return failures[n-1]
		case a.Said[len(a.Said)-1].Role == message.RoleUser:
			return Answer{Frames: frames}
		}
		return Answer{Frames: api.Frames(saying(message.Text("All done.")))}
	}))
	defer server.Close()
	m, err := api.New("m-1", server.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(agent.Definition[none]{
		Name: "shop", Model: m, ReplyTimeout: 300 * time.Millisecond, Retry: retry.Fixed(100, time.Millisecond),
		Tools: []agent.Tool{agent.Effect[order, string]{
			Name: "refund",
			Run:  func(context.Context, string, order) (string, error) { paid.Add(1); return "paid", nil },
		}.Tool()},
	}, agent.InMemory(), &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	o, err := a.Say(t.Context(), "s", agent.Text("refund A"), nil)
	if err != nil || o.Text != "All done." || o.Status != agent.Completed || paid.Load() != 1 {
		t.Errorf("%+v, %v; paid %d times", o, err, paid.Load())
	}
}

// refundOf is what the model asks for.
type refundOf struct {
	Order string `json:"order"`
	Cents int    `json:"cents"`
}

// A chat behind HTTP, with a tool that runs in the browser and one that a person has to approve. Another process takes
// the result of the browser. A user cannot approve, and the desk can.
func shop(t testing.TB, api API) {
	script := scripted.New(
		scripted.On(`(A-\d+)`,
			scripted.Say("I look.").Call("lookup", order{"{1}"}).Call("photo", "{}").
				Call("refund", refundOf{"{1}", 420_00}),
			scripted.Say("Your money is back.")))
	server := httptest.NewServer(api.Serve(script))
	defer server.Close()
	m, err := api.New("m-1", server.URL, "k", nil)
	if err != nil {
		t.Fatal(err)
	}
	var pays atomic.Int32
	st := agent.InMemory()
	open := func() *agent.Agent[memory] {
		a, err := agent.New(agent.Definition[memory]{
			Name: "support", Model: m, Instructions: "You work for a shop.", MaxCost: 2, Window: 40,
			Tools: []agent.Tool{
				agent.Read("lookup", "looks an order up", func(context.Context, order) (order, error) {
					return order{"here"}, nil
				}),
				agent.ClientTool[struct{}]("photo", "a photo of the parcel"),
				agent.Effect[refundOf, string]{
					Name: "refund", Description: "pays an order back", Class: ledger.Verifiable,
					Run: func(context.Context, string, refundOf) (string, error) { pays.Add(1); return "receipt", nil },
					Verify: func(context.Context, string) (string, bool, error) {
						return "receipt", pays.Load() > 0, nil
					},
					Key:     func(r refundOf) string { return r.Order },
					Approve: func(r refundOf) bool { return r.Cents > 100_00 },
				}.Tool(),
			},
			After: func(m *memory, c agent.Call, r agent.Result) {
				if c.Name == "refund" && !r.Failed {
					m.Refunded = append(m.Refunded, r.Text)
				}
			},
		}, st, &orchestrator.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	web := httptest.NewServer(agent.Handler(open(), turnhttp.Options[agent.State[memory]]{Authorize: usersAndDesk}))
	defer web.Close()
	do := func(user, method, path, body string) (int, string) {
		return visit(t, user, method, web.URL+"/sessions/s/"+path, body)
	}
	status, body := do("ann", "POST", "turns", `{"message":"A-1042 arrived broken"}`)
	if status != http.StatusOK || !strings.Contains(body, "paused") || pays.Load() != 0 {
		t.Fatalf("%d %s; paid %d times", status, body, pays.Load())
	}
	a := open() // another process
	s, _, err := a.Get(t.Context(), "s")
	if err != nil || len(s.Open) != 2 {
		t.Fatalf("%+v, %v", s.Open, err)
	}
	if _, err := a.Answer(t.Context(), "s", s.Open[0].Call.ID, agent.Done("broken.jpg")); err != nil {
		t.Fatal(err)
	}
	var list struct{ Questions []struct{ ID, Sum string } }
	_, body = do("desk", "GET", "questions", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Questions) != 1 {
		t.Fatalf("%s, %v", body, err)
	}
	q := list.Questions[0]
	yes := fmt.Sprintf(`{"sum":%q,"answer":{"approved":true}}`, q.Sum)
	if status, body := do("ann", "POST", "questions/"+q.ID, yes); status != http.StatusForbidden {
		t.Errorf("a user approves: %d %s", status, body)
	}
	_, body = do("desk", "POST", "questions/"+q.ID, yes)
	s, _, err = a.Get(t.Context(), "s")
	if err != nil || !strings.Contains(body, "Your money is back.") || pays.Load() != 1 ||
		fmt.Sprint(s.Custom.Refunded) != "[receipt]" {
		t.Errorf("%s, %+v, %v; paid %d times", body, s.Custom, err, pays.Load())
	}
	_, err = a.Answer(t.Context(), "s", q.ID, agent.Refuse("owner", ""))
	if !errors.Is(err, agent.ErrAnswered) {
		t.Error(err)
	}
}

// usersAndDesk lets users say things, and the desk answer.
func usersAndDesk(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
	who := turnhttp.Actor(r.Header.Get("X-User"))
	if (action == turnhttp.ActionTurn) == (who == "desk") {
		return "", turnhttp.ErrDenied
	}
	return who, nil
}

func visit(t testing.TB, user, method, url, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "1")
	req.Header.Set("X-User", user)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	doc, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(doc)
}
