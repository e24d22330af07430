package agui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
)

// An Order asks for two approvals at once, and says what it was told.
type Order struct {
	Said string
	Open []string
	Yes  int
}

// newDesk returns a bot that asks two questions, and its options. Without events it has no stream store.
func newDesk(
	t *testing.T, events stream.Store,
) (*orchestrator.Orchestrator[Order], turnhttp.Options[Order], *atomic.Int64) {
	t.Helper()
	var ran atomic.Int64
	bot, err := orchestrator.New(orchestrator.Definition[Order]{
		Name: "desk",
		Intents: orchestrator.Intents[Order]{"do": {Run: func(_ context.Context, turn *orchestrator.Turn[Order]) error {
			ran.Add(1)
			if turn.Input.Origin == orchestrator.FromAnswer {
				var id string
				var yes bool
				if _, err := fmt.Sscan(turn.Input.Text, &id, &yes); err != nil {
					return err
				}
				for i, open := range turn.State.Open {
					if open == id {
						turn.State.Open = append(turn.State.Open[:i:i], turn.State.Open[i+1:]...)
					}
				}
				if yes {
					turn.State.Yes++
				}
				turn.State.Said = fmt.Sprintf("%s is %t. ", id, yes)
			} else {
				turn.State.Said, turn.State.Open = turn.Input.Text+" ", []string{"first.one", "second"}
			}
			turn.Emit(turn.State.Said)
			return nil
		}}},
	}, new(checkpoint.Memory), &orchestrator.Options{
		Snapshots: new(snapshot.Memory), Stream: events, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bot.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return bot, turnhttp.Options[Order]{
		Authorize: turnhttp.Allow("ann", "turn", "follow", "read", "answer"),
		Reply:     func(res *orchestrator.Result[Order]) any { return res.State.Said },
		Questions: func(s *Order) (all []approval.Question) {
			for _, id := range s.Open {
				all = append(all, approval.Question{ID: id, Shown: "Is " + id + " right?"})
			}
			return all
		},
		Answer: func(q approval.Question, a approval.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{Text: q.ID + " " + string(a.Data)}, nil
		},
		Inbox: new(inbox.Memory),
	}, &ran
}

// post sends a body, and returns the status and the events.
func post(t *testing.T, h http.Handler, path, body string) (status int, events []map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for lines := bufio.NewScanner(w.Body); lines.Scan(); {
		if doc, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var ev map[string]any
			if err := json.Unmarshal([]byte(doc), &ev); err != nil {
				t.Fatal(err)
			}
			events = append(events, ev)
		}
	}
	return w.Code, events
}

// text returns what events say.
func text(events []map[string]any) (all string) {
	for _, ev := range events {
		if ev["type"] == "TEXT_MESSAGE_CONTENT" {
			all += ev["delta"].(string)
		}
	}
	return all
}

// Several questions are answered by one run, with a stream store and without. A repeat runs nothing again.
func TestAnswers(t *testing.T) {
	for _, events := range []stream.Store{new(stream.Memory), nil} {
		bot, o, ran := newDesk(t, events)
		h := agui.Handler(bot, o, nil)
		say := `{"threadId":"t","runId":"r1","messages":[{"id":"m1","role":"user","content":"hello"}]}`
		_, told := post(t, h, "/agent", say)
		if got := text(told); got != "hello " {
			t.Errorf("it says %q", got)
		}
		open := told[len(told)-1]["outcome"].(map[string]any)["interrupts"].([]any)
		var resume []string
		for i, one := range open {
			id := one.(map[string]any)["id"]
			resume = append(resume, fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":%t}`, id, i == 0))
		}
		if len(resume) != 2 {
			t.Fatalf("%d interrupts", len(resume))
		}
		answers := `{"threadId":"t","runId":"r2","messages":[],"resume":[` + strings.Join(resume, ",") + `]}`
		for range 2 {
			_, told := post(t, h, "/agent", answers)
			last := told[len(told)-1]
			if last["type"] != "RUN_FINISHED" || !strings.HasSuffix(text(told), "second is false. ") {
				t.Errorf("text %q, last event %v", text(told), last)
			}
		}
		for range 2 {
			if _, told := post(t, h, "/agent", say); text(told) != "hello " {
				t.Errorf("a repeat says %q", text(told))
			}
		}
		if n := ran.Load(); n != 3 {
			t.Errorf("the bot ran %d times", n)
		}
		if _, told := post(t, h, "/agent/connect", `{"threadId":"t","runId":"r3","messages":[]}`); !strings.HasSuffix(
			text(told), "second is false. ") {
			t.Errorf("connect says %q", text(told))
		}
		if res, err := bot.Turn(t.Context(), "t", checkpoint.Newest); err != nil || res.State.Yes != 1 {
			t.Errorf("the state is %+v, error %v", res, err)
		}
	}
}

// Of several answers, those before one that is refused are taken.
func TestAnswersHalf(t *testing.T) {
	bot, o, _ := newDesk(t, new(stream.Memory))
	h := agui.Handler(bot, o, nil)
	const say = `{"threadId":"t","runId":"r1","messages":[{"id":"m1","role":"user","content":"hello"}]}`
	_, told := post(t, h, "/agent", say)
	open := told[len(told)-1]["outcome"].(map[string]any)["interrupts"].([]any)
	first := open[0].(map[string]any)["id"]
	_, told = post(t, h, "/agent", fmt.Sprintf(`{"threadId":"t","runId":"r2","messages":[],"resume":[
		{"interruptId":%q,"status":"resolved","payload":true},
		{"interruptId":"nothing.1","status":"resolved","payload":true}]}`, first))
	if last := told[len(told)-1]; last["type"] != "RUN_ERROR" || last["code"] != "/problems/not-found" {
		t.Errorf("the last event is %v", last)
	}
	if res, err := bot.Turn(t.Context(), "t", checkpoint.Newest); err != nil || len(res.State.Open) != 1 {
		t.Errorf("the state is %+v, error %v", res, err)
	}
}

// What clients send that is no run.
func TestRefused(t *testing.T) {
	bot, o, ran := newDesk(t, nil)
	o.Origins = []string{"https://app.example.com"}
	h := agui.Handler(bot, o, nil)
	for body, want := range map[string]int{
		``: 400, `[]`: 400, `{"threadId":"t"}`: 400, `{"threadId":"t","runId":"r"}`: 400,
		`{"threadId":"","runId":"r","messages":[{"id":"1","role":"user","content":"x"}]}`:                   400,
		`{"threadId":"t","runId":"r","messages":[{"role":"user","content":"x"}]}`:                           400,
		`{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":{"a":1}}]}`:              400,
		`{"threadId":"t","runId":"r","messages":[{"id":"turnhttp/answer/1","role":"user","content":"x"}]}`:  400,
		`{"threadId":"t","runId":"r","messages":"x"}`:                                                       400,
		`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"a.b","status":"resolved"}]}`:   404,
		`{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"a.b","status":"what"}]}`:       400,
		`{"threadId":"` + strings.Repeat("t", 513) + `","runId":"r","messages":[{"id":"1","role":"user"}]}`: 400,
	} {
		if status, _ := post(t, h, "/agent", body); status != want {
			t.Errorf("%.60s: status %d, want %d", body, status, want)
		}
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("the bot ran %d times", n)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodOptions, "/agent", nil)
	r.Header.Set("Origin", "https://app.example.com")
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusNoContent || w.Header().Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("OPTIONS: status %d, header %v", w.Code, w.Header())
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/agent", nil))
	if w.Code != http.StatusMethodNotAllowed || !strings.HasPrefix(w.Header().Get("Allow"), "POST") {
		t.Errorf("GET: status %d, Allow %q", w.Code, w.Header().Get("Allow"))
	}
}
