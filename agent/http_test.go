package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// mayDesk lets users say things, and the desk answer.
func mayDesk(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
	who := turnhttp.Actor(r.Header.Get("Who"))
	switch {
	case who == "":
		return "", errors.New("who are you?")
	case (action == turnhttp.ActionAnswer || action == turnhttp.ActionClient) && who != "desk":
		return "", turnhttp.ErrDenied
	}
	return who, nil
}

// sent sends a request of someone, with the key k1.
func sent(t *testing.T, h http.Handler, who, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", "k1")
	r.Header.Set("Who", who)
	res := httptest.NewRecorder()
	h.ServeHTTP(res, r)
	return res
}

// Over HTTP a user says things and a desk answers. No client says what an input is, and no user answers.
func TestHandler(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	do := func(who, method, path, body string) (int, string) {
		res := sent(t, h, who, method, path, body)
		return res.Code, res.Body.String()
	}
	_, _ = do("ann", "POST", "/sessions/s/turns", `{"message":"refund A1"}`)
	_, doc := do("desk", "GET", "/sessions/s/questions", "")
	var asked struct {
		Questions []struct{ ID, Sum string }
	}
	if err := json.Unmarshal([]byte(doc), &asked); err != nil || len(asked.Questions) != 2 {
		t.Fatal(doc, err)
	}
	for _, c := range []struct {
		who, method, path, body string
		code                    int
		want                    string
	}{
		{"ann", "POST", "/sessions/s/turns", `{"message":"x","data":{"op":"create"}}`, 400, ""},
		{"ann", "POST", "/sessions/s/turns", `{"message":"refund A1"}`, 200, `"reason":"suspended_step_partial"`},
		{"desk", "GET", "/sessions/s/questions", "", 200, `"args":{"order":"A1"}`},
		{"ann", "POST", "/sessions/s/questions/c3", `{"answer":{"approved":true}}`, 403, ""},
		{"desk", "POST", "/sessions/s/questions/c3", `{"answer":{"result":"photo"}}`, 422, ""},
		{"desk", "POST", "/sessions/s/questions/c3", `{"answer":{}}`, 422, ""},
		{"desk", "POST", "/sessions/s/questions/c2", `{"answer":{"result":"photo"}}`, 200, `"status":"paused"`},
		{"desk", "POST", "/sessions/s/questions/c2", `{"answer":{"result":"other"}}`, 409, ""},
		{"desk", "POST", "/sessions/s/questions/c3", `{"answer":{"approved":true}}`, 200, `"text":"all done"`},
		{"desk", "GET", "/sessions/s/questions", "", 200, `"questions":[]`},
		{"desk", "GET", "/sessions/s/effects", "", 200, "refund"},
		{"ann", "GET", "/sessions/s/messages?limit=1", "", 200, `"parts":[{"type":"text","text":"all done"}]}],"more":true`},
		{"ann", "GET", "/sessions/new/messages", "", 200, `"turn":-1,"messages":[],"more":false`},
		{"ann", "POST", "/sessions/s/stop", `{"run":"over"}`, 200, `"stopping":false`},
	} {
		for _, q := range asked.Questions {
			if strings.HasSuffix(c.path, q.ID) {
				c.body = `{"sum":"` + q.Sum + `",` + c.body[1:]
			}
		}
		code, doc := do(c.who, c.method, c.path, c.body)
		if code != c.code || !strings.Contains(doc, c.want) {
			t.Errorf("%s %s %s: %d %s, want %d with %s", c.method, c.path, c.body, code, doc, c.code, c.want)
		}
	}
	told(t, a, "s")
	if s, _ := get(t, a, "s"); !by(&s, "c3", "desk") || w.Refunds.Load() != 1 {
		t.Errorf("%+v, %d refunds", s.Answered, w.Refunds.Load())
	}
}

// A user whose browser runs client tools sees their calls and answers them, and approves nothing.
func TestUserRunsClientTools(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{
		Authorize: turnhttp.Allow("ann", turnhttp.ActionTurn, turnhttp.ActionClient),
	})
	desk := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	sent(t, h, "", "POST", "/sessions/s/turns", `{"message":"refund A1"}`)
	var all struct{ Questions []struct{ ID, Sum string } }
	questions := func(h http.Handler) string {
		body := sent(t, h, "desk", "GET", "/sessions/s/questions", "").Body.String()
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			t.Fatal(err)
		}
		return body
	}
	if shown := questions(h); len(all.Questions) != 1 || !strings.Contains(shown, `"tool":"camera"`) {
		t.Errorf("the user sees %s", shown)
	}
	questions(desk)
	for _, q := range all.Questions {
		want, answer := 200, `{"result":"a wet parcel"}`
		if q.ID == "c3" {
			want, answer = 403, `{"approved":true}`
		}
		res := sent(t, h, "", "POST", "/sessions/s/questions/"+q.ID, `{"sum":"`+q.Sum+`","answer":`+answer+`}`)
		if res.Code != want {
			t.Errorf("the user answers %s: %d %s", q.ID, res.Code, res.Body)
		}
	}
	if shown := questions(desk); len(all.Questions) != 1 || w.Refunds.Load() != 0 {
		t.Errorf("then %s waits, after %d refunds", shown, w.Refunds.Load())
	}
}

// A client branches a session that waits, from any kept turn. In the branch all that was said is there, and nothing
// waits.
func TestBranchOverHTTP(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	sent(t, h, "ann", "POST", "/sessions/s/turns", `{"message":"refund A1"}`)
	for _, c := range []struct {
		from, body string
		code       int
		want       string
	}{
		{"s", `{"session":"b","turn":0}`, 201, `{"session":"b"}`},
		{"s", `{"session":"b","turn":0}`, 201, `{"session":"b"}`}, // a repeat
		{"s", `{"session":"newest"}`, 201, `{"session":"newest"}`},
		{"newest", `{"session":"b"}`, 409, "/problems/conflict"},
		{"s", `{"session":"s"}`, 409, "/problems/conflict"},
		{"s", `{"session":"c","turn":1}`, 404, "/problems/not-found"},
		{"other", `{"session":"c"}`, 404, "/problems/not-found"},
	} {
		if res := sent(t, h, "ann", "POST", "/sessions/"+c.from+"/branch", c.body); res.Code != c.code ||
			!strings.Contains(res.Body.String(), c.want) {
			t.Errorf("%s of %q: %d %s, want %d %s", c.body, c.from, res.Code, res.Body, c.code, c.want)
		}
	}
	for _, session := range []string{"b", "newest"} {
		said := sent(t, h, "ann", "GET", "/sessions/"+session+"/messages", "").Body.String()
		asks := sent(t, h, "desk", "GET", "/sessions/"+session+"/questions", "").Body.String()
		if !strings.Contains(said, "refund A1") || strings.Contains(asks, "sum") {
			t.Errorf("the branch %q has %s and asks %s", session, said, asks)
		}
		told(t, a, session)
	}
	if _, _, err := a.Get(t.Context(), "c"); !errors.Is(err, agent.ErrUnknown) {
		t.Errorf("a branch of nothing: %v", err)
	}
	if asks := sent(t, h, "desk", "GET", "/sessions/s/questions", "").Body; !strings.Contains(asks.String(), "c3") {
		t.Errorf("the source asks %s", asks)
	}
}

// In a branch, what was said in the source is of turn 0: that is the turn of the branch that has it.
func TestTurnsOfBranch(t *testing.T) {
	a := newAgent(t, agent.Definition[none]{Model: answers(message.Text("gone"))}, agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: turnhttp.Anyone})
	a.SetTail(40)
	say := func(session string) {
		if _, err := a.Say(t.Context(), session, agent.Text("go"), nil); err != nil {
			t.Fatal(err)
		}
	}
	turns := func(session, want string) {
		t.Helper()
		var doc struct{ Messages []struct{ Turn int } }
		body := sent(t, h, "", "GET", "/sessions/"+session+"/messages", "").Body
		if err := json.NewDecoder(body).Decode(&doc); err != nil || fmt.Sprint(doc.Messages) != want {
			t.Errorf("the messages of %q are of %v, want %s: %v", session, doc.Messages, want, err)
		}
	}
	for range 3 {
		say("s")
	}
	turns("s", "[{0} {0} {1} {1} {2} {2}]")
	if err := a.Branch(t.Context(), "s", 2, "b"); err != nil {
		t.Fatal(err)
	}
	turns("b", "[{0} {0} {0} {0}]")
	say("b")
	turns("b", "[{0} {0} {0} {0} {1} {1}]")
	if err := a.Branch(t.Context(), "b", 2, "c"); err != nil {
		t.Fatal(err)
	}
	say("c")
	turns("c", "[{0} {0} {0} {0} {0} {0} {1} {1}]")
	keep := func(s *agent.State[none]) error { s.KeepFirst(2); return nil }
	if _, err := a.Update(t.Context(), "c", 0, keep); err != nil {
		t.Fatal(err)
	}
	say("c")
	turns("c", "[{0} {0} {3} {3}]")
}

// What was said comes in pages, wherever it is kept, and also if a summary stands for it.
func TestMessagesInPages(t *testing.T) {
	a := newAgent(t, agent.Definition[none]{
		Model: answers(call("c", "lookup", `{"order":"1"}`)),
		Tools: []agent.Tool{
			lookup(func(context.Context, refundArgs) (string, error) { return "found", nil }),
		},
		Compact: &agent.Compaction{Above: 100_000, Keep: 50, Model: summary{}},
	}, agent.InMemory())
	a.SetTail(300)
	for n := range 4 {
		if _, err := a.Say(t.Context(), "s", agent.Text(fmt.Sprint("go ", n)), nil); err != nil {
			t.Fatal(err)
		}
		if n == 2 {
			if _, err := a.Compact(t.Context(), "s", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, _ := get(t, a, "s"); s.Summary == "" {
		t.Fatal("there is no summary")
	}
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: turnhttp.Anyone})
	page := func(query string) (numbers []int, texts string) {
		res := httptest.NewRecorder()
		h.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), "GET", "/sessions/s/messages"+query, nil))
		var doc struct {
			Messages []struct {
				Number int
				Role   string
				Parts  []turnhttp.Part
			}
		}
		if err := json.NewDecoder(res.Result().Body).Decode(&doc); err != nil {
			t.Fatal(err)
		}
		for _, m := range doc.Messages {
			numbers = append(numbers, m.Number)
			texts += fmt.Sprintf("%s %v\n", m.Role, m.Parts)
		}
		return numbers, texts
	}
	all, want := page("")
	if len(all) != 16 {
		t.Fatalf("%d messages, want 16\n%s", len(all), want)
	}
	for size := 1; size <= 17; size++ {
		got, next := "", 16
		for next > 0 {
			numbers, texts := page(fmt.Sprintf("?limit=%d&before=%d", size, next))
			if len(numbers) != min(size, next) || numbers[len(numbers)-1] != next-1 {
				t.Fatalf("pages of %d: %v before %d", size, numbers, next)
			}
			got, next = texts+got, numbers[0]
		}
		if got != want {
			t.Errorf("pages of %d have\n%swant\n%s", size, got, want)
		}
	}
}

// A person says what became of a call whose outcome was lost, in words. The turn goes on.
func TestDoubtAnswered(t *testing.T) {
	for value, want := range map[string]string{
		`,"value":"receipt 7"`: "receipt 7", "": "it was done, as a person says",
	} {
		pay := agent.Effect[refundArgs, string]{Name: "pay"}
		pay.Run = func(context.Context, string, refundArgs) (string, error) {
			return "", errors.New("the reply was lost")
		}
		a := newAgent(t, agent.Definition[none]{
			Model: answers(call("c", "pay", `{"order":"1"}`)), Tools: []agent.Tool{pay.Tool()},
		}, agent.InMemory())
		h := agent.Handler(a, turnhttp.Options[agent.State[none]]{
			Authorize: turnhttp.Allow("ann", turnhttp.ActionRead, turnhttp.ActionResolve),
		})
		do := func(method, path, body string) (doc struct{ Effects []struct{ ID string } }) {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			res := httptest.NewRecorder()
			h.ServeHTTP(res, r)
			if err := json.Unmarshal(res.Body.Bytes(), &doc); err != nil || res.Code != 200 {
				t.Fatal(res.Code, res.Body, err)
			}
			return doc
		}
		if _, err := a.Say(t.Context(), "s", agent.Text("go"), nil); !errors.Is(err, orchestrator.ErrSuspended) {
			t.Fatal(err)
		}
		effect := do("GET", "/sessions/s/effects", "").Effects[0].ID
		do("POST", "/sessions/s/effects/"+effect, `{"outcome":"landed"`+value+`}`)
		if res, err := a.Bot().Resume(t.Context(), "s", nil); err != nil || res.State.Output != want {
			t.Errorf("%s: %+v, %v, want %q", value, res, err, want)
		}
	}
}

// A summary is a model that writes one.
type summary struct{}

func (summary) Reply(context.Context, agent.Request, func(string)) (agent.Reply, error) {
	return agent.Reply{Message: message.Assistant("they looked things up")}, nil
}

// No client takes a request id that the agent makes itself: nobody could continue or answer then.
func TestReservedKeys(t *testing.T) {
	down := true
	a := newAgent(t, agent.Definition[none]{
		Tools: []agent.Tool{lookup(func(context.Context, refundArgs) (string, error) { return "found", nil })},
		Model: agent.ModelFunc(func(_ context.Context, r agent.Request, _ func(string)) (agent.Reply, error) {
			switch {
			case last(r).Role == message.RoleUser && down:
				return says("", call("", "lookup", `{"order":"A"}`))
			case down:
				return agent.Reply{}, errModel
			}
			return says("done")
		}),
	}, agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: turnhttp.Anyone})
	for key, code := range map[string]int{
		"continue 1": 422, "drop 1": 422, "answer 0 c1": 422, "compact 1": 422, "import x": 422, "branch": 422,
		"continue": 200,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/sessions/s/turns", strings.NewReader(`{"message":"go"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		res := httptest.NewRecorder()
		h.ServeHTTP(res, r)
		if res.Code != code {
			t.Errorf("key %q: %d %s, want %d", key, res.Code, res.Body, code)
		}
	}
	down = false
	o, err := a.Continue(t.Context(), "s", nil)
	if settled(t, o, err); o.Status != agent.Completed {
		t.Errorf("%+v", o)
	}
}

// A model that has got the Tool of a bot says what a user may say. It cannot answer what it has asked for itself.
func TestToolOfBot(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.Definition(), agent.InMemory())
	in := func(context.Context) (string, error) { return "s", nil }
	status := func(r *orchestrator.Result[agent.State[none]]) string { return string(r.State.Status) }
	tool := a.Bot().Tool("support", "", status, in)
	ask := func(id, text string) (string, error) {
		args, err := json.Marshal(map[string]string{"input": text})
		if err != nil {
			t.Fatal(err)
		}
		return tool.Call(t.Context(), id, args)
	}
	if got, err := ask("1", "refund A1"); err != nil || got != "paused" {
		t.Fatal(got, err)
	}
	bad := `{"op":"answer","call":"c3","answer":{"Kind":"approval","Approved":true}}`
	if got, err := ask("2", bad); !errors.Is(err, agent.ErrPending) {
		t.Error(got, err)
	}
	if s, _ := get(t, a, "s"); len(s.Answered.Calls) > 0 || w.Refunds.Load() != 0 {
		t.Errorf("%+v, %d refunds", s.Answered, w.Refunds.Load())
	}
}

// Who deletes a session over HTTP deletes what was said in it too, and its children.
func TestDeleteOverHTTP(t *testing.T) {
	st := agent.InMemory()
	boss, clerk, _ := family(t, st, new(atomic.Int32))
	h := agent.Handler(boss, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	sent(t, h, "ann", "POST", "/sessions/s/turns", `{"message":"go"}`)
	if said := told(t, boss, "s"); said == "" || len(sessionsOf(t, st, clerk.Name())) == 0 {
		t.Fatalf("said %q", said)
	}
	for range 2 {
		if res := sent(t, h, "ann", "DELETE", "/sessions/s", ""); res.Code != http.StatusNoContent {
			t.Fatal(res.Code, res.Body)
		}
	}
	if left := sessionsOf(t, st, clerk.Name()); len(left) > 0 {
		t.Errorf("the children %q are left", left)
	}
	if err := boss.Create(t.Context(), "s", none{}, agent.Labels{}); err != nil {
		t.Errorf("the session is left: %v", err)
	}
}

// The process that has taken an answer dies before it runs it. Another one does.
func TestAnswersOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, st := new(shop), agent.InMemory()
		a := newAgent(t, w.Definition(), st)
		say(t, a, "s", "refund A1")
		if _, err := a.Answer(t.Context(), "s", "c2", agent.Done("photo")); err != nil {
			t.Fatal(err)
		}
		first, err := st.Inbox.Post(t.Context(), inbox.Item{
			Key: inbox.Key{Orchestrator: a.Name(), Session: "s"}, Kind: inbox.Answer, ID: "c3", By: "desk",
			Data: []byte(`{"approved":true}`),
		})
		if err != nil || !first {
			t.Fatal(first, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- agent.Answers(ctx, a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
		}()
		time.Sleep(time.Minute) // of the bubble
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s, _, err := a.Get(t.Context(), "s"); err != nil || s.Output != "all done" || w.Refunds.Load() != 1 {
			t.Errorf("%+v, %v, %d refunds", s, err, w.Refunds.Load())
		}
	})
}
