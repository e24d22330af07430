package uichat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

type state = agent.State[struct{}]

// A shop is an agent with a tool of each kind, and a model that does what the user says.
type shop struct {
	asked, refunds atomic.Int32
	hold           chan struct{} // the model waits for it, if the user says "wait"
	fails          atomic.Bool
	stumbled       atomic.Bool // the model has, over what the user says so
	agent          *agent.Agent[struct{}]
	http.Handler
}

func newShop(t *testing.T, ui *uichat.Options) *shop {
	t.Helper()
	s := &shop{hold: make(chan struct{})}
	type order struct {
		Order string `json:"order"`
	}
	refund := agent.Effect[order, string]{
		Name: "refund", Description: "Pays.", Class: ledger.Idempotent,
		Run: func(context.Context, string, order) (string, error) {
			s.refunds.Add(1)
			return "paid", nil
		},
		Approve: func(order) bool { return true },
	}.Tool()
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop", Model: agent.ModelFunc(s.reply), ShowReasoning: true,
		Tools: []agent.Tool{
			agent.Read("look", "Looks up an order.", func(_ context.Context, o order) (map[string]any, error) {
				if o.Order == "none" {
					return nil, errors.New("no such order")
				}
				return map[string]any{"cents": 250, "order": o.Order}, nil
			}),
			refund, agent.ClientTool[order]("photo", "Takes a photo."),
		},
	}, agent.InMemory(), &orchestrator.Options{Stream: new(stream.Memory)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Bot().Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s.agent = a
	s.Handler = uichat.Handler(a.Bot(), a.Options(turnhttp.Options[state]{Authorize: may}), ui)
	return s
}

// may lets ann talk and run client tools, and the desk do all.
func may(r *http.Request, _ string, action turnhttp.Action) (turnhttp.Actor, error) {
	switch who := r.Header.Get("Who"); {
	case who == "":
		return "", errors.New("who are you?")
	case action == turnhttp.ActionAnswer && who != "desk":
		return "", turnhttp.ErrDenied
	default:
		return turnhttp.Actor(who), nil
	}
}

func (s *shop) reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	s.asked.Add(1)
	usage := orchestrator.Usage{Model: "m", Input: 10, Output: 5, Cost: 0.5}
	last := r.Said[len(r.Said)-1]
	text := last.Blocks[0].Text
	if s.fails.Load() {
		token("Half a ")
		return agent.Reply{Usage: usage}, errors.New("the model is away: card 4711")
	}
	wait := func() error {
		select {
		case <-s.hold:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if last.Role != message.RoleUser {
		token("Done: ")
		if n := len(r.Said) - 3; n >= 0 && strings.HasSuffix(r.Said[n].Blocks[0].Text, "slow") {
			if err := wait(); err != nil {
				return agent.Reply{Usage: usage}, err
			}
		}
		token(text)
		return agent.Reply{Message: message.Assistant("Done: " + text), Usage: usage}, nil
	}
	tool, order, _ := strings.Cut(text, " ")
	args := []byte(fmt.Sprintf(`{"order":%q}`, order))
	id := fmt.Sprintf("call-%d", s.asked.Load())
	switch tool {
	case "wait":
		token("Wait. ")
		if err := wait(); err != nil {
			return agent.Reply{Usage: usage}, err
		}
		token("Over.")
		return agent.Reply{Message: message.Assistant("Wait. Over."), Usage: usage}, nil
	case "fail":
		token("Half a ")
		return agent.Reply{Usage: usage}, retry.Permanent(errors.New("the model is away: card 4711"))
	case "stumble":
		if s.stumbled.CompareAndSwap(false, true) {
			token("Half a ")
			return agent.Reply{Usage: usage}, errors.New("the model is away: card 4711")
		}
		token("Whole.")
		return agent.Reply{Message: message.Assistant("Whole."), Usage: usage}, nil
	case "look", "refund", "photo":
		return agent.Reply{Usage: usage, Message: message.Message{Role: message.RoleAssistant, Blocks: []message.Block{
			message.Reasoning("I need "+tool+".", nil), message.ToolCall(id, tool, args),
		}}}, nil
	case "both":
		return agent.Reply{Usage: usage, Message: message.Message{Role: message.RoleAssistant, Blocks: []message.Block{
			message.ToolCall(id+"a", "refund", args), message.ToolCall(id+"b", "refund", []byte(`{"order":"other"}`)),
		}}}, nil
	}
	users := 0
	for _, m := range r.Said {
		if m.Role == message.RoleUser {
			users++
		}
	}
	said := fmt.Sprintf("%d: you said %s", users, text)
	token(said)
	return agent.Reply{Message: message.Assistant(said), Usage: usage}, nil
}

// An answer is what a page gets.
type answer struct {
	code   int
	body   string
	chunks []map[string]any
}

// do sends a request to a handler.
func do(t *testing.T, h http.Handler, who, method, path, body string) (a answer) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Who", who)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a.code, a.body = w.Code, w.Body.String()
	for lines := bufio.NewScanner(strings.NewReader(a.body)); lines.Scan(); {
		doc, ok := strings.CutPrefix(lines.Text(), "data: ")
		var c map[string]any
		if ok && doc != "[DONE]" {
			if err := json.Unmarshal([]byte(doc), &c); err != nil {
				t.Fatal(doc, err)
			}
			a.chunks = append(a.chunks, c)
		}
	}
	return a
}

// user returns a message of the user.
func user(id, text string) map[string]any {
	return map[string]any{
		"id": id, "role": "user", "parts": []any{map[string]any{"type": "text", "text": text}},
	}
}

// post sends messages as the transport does.
func post(t *testing.T, h http.Handler, who, trigger, messageID string, messages ...any) answer {
	t.Helper()
	q := map[string]any{"id": "s", "messages": messages, "trigger": trigger}
	if messageID != "" {
		q["messageId"] = messageID
	}
	doc, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, h, who, "POST", "/api/chat", string(doc))
}

func (a answer) of(kind string) (all []map[string]any) {
	for _, c := range a.chunks {
		if c["type"] == kind {
			all = append(all, c)
		}
	}
	return all
}

// text returns what the deltas say.
func (a answer) text() (text string) {
	for _, c := range a.of("text-delta") {
		text += c["delta"].(string)
	}
	return text
}

func (a answer) message() string { return a.of("start")[0]["messageId"].(string) }

// approves returns the message of the assistant that answers the approvals of a.
func (a answer) approves(approved bool) map[string]any {
	var parts []any
	for _, c := range a.of("tool-approval-request") {
		parts = append(parts, map[string]any{
			"type": "dynamic-tool", "toolName": "refund", "toolCallId": c["toolCallId"], "state": "approval-responded",
			"input": map[string]any{}, "providerExecuted": true,
			"approval": map[string]any{"id": c["approvalId"], "approved": approved, "reason": "because"},
		})
	}
	return map[string]any{"id": a.message(), "role": "assistant", "parts": parts}
}

// history returns what GET messages has, as role, id, and what the parts say.
func (s *shop) history(t *testing.T) string {
	t.Helper()
	var h struct {
		Messages []struct {
			ID, Role string
			Parts    []struct{ Type, Text, State string }
		}
	}
	a := do(t, s, "ann", "GET", "/api/chat/s/messages", "")
	if err := json.Unmarshal([]byte(a.body), &h); err != nil {
		t.Fatal(a.code, a.body, err)
	}
	var all []string
	for _, m := range h.Messages {
		line := m.Role
		if m.Role == "user" {
			line += " " + m.ID
		}
		for _, p := range m.Parts {
			switch p.Type {
			case "text":
				line += " " + p.Text
			case "dynamic-tool":
				line += " " + p.State
			}
		}
		all = append(all, line)
	}
	return strings.Join(all, " | ")
}

// echoes returns the handler of a bot that keeps no messages.
func echoes(t *testing.T) http.Handler {
	t.Helper()
	type echo struct{ Said string }
	say := func(_ context.Context, t *orchestrator.Turn[echo]) error {
		if t.Input.Text == "fail" {
			return errors.New("not now")
		}
		t.State.Said = "You said: " + t.Input.Text
		return nil
	}
	bot, err := orchestrator.New(orchestrator.Definition[echo]{
		Name: "echo", Intents: orchestrator.Intents[echo]{"say": {Run: say}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		t.Fatal(err)
	}
	return uichat.Handler(bot, turnhttp.Options[echo]{
		Authorize: turnhttp.Anyone,
		Reply:     func(r *orchestrator.Result[echo]) any { return map[string]string{"text": r.State.Said} },
	}, nil)
}
