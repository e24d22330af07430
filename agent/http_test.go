package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// mayDesk lets users say things, and the desk answer.
func mayDesk(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
	who := turnhttp.Actor(r.Header.Get("Who"))
	switch {
	case who == "":
		return "", errors.New("who are you?")
	case action == turnhttp.ActionAnswer && who != "desk":
		return "", turnhttp.ErrDenied
	}
	return who, nil
}

// Over HTTP a user says things and a desk answers. No client says what an input is, and no user answers.
func TestHandler(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.definition(), agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{Authorize: mayDesk})
	do := func(who, method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k1")
		r.Header.Set("Who", who)
		res := httptest.NewRecorder()
		h.ServeHTTP(res, r)
		doc, err := io.ReadAll(res.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.Code, string(doc)
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
	if s, _ := get(t, a, "s"); s.Answered["c3"] != "desk" || w.refunds.Load() != 1 {
		t.Errorf("%+v, %d refunds", s.Answered, w.refunds.Load())
	}
}

// A model that has got the Tool of a bot says what a user may say. It cannot answer what it has asked for itself.
func TestToolOfBot(t *testing.T) {
	w := new(shop)
	a := newAgent(t, w.definition(), agent.InMemory())
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
	if s, _ := get(t, a, "s"); len(s.Answered) > 0 || w.refunds.Load() != 0 {
		t.Errorf("%+v, %d refunds", s.Answered, w.refunds.Load())
	}
}
