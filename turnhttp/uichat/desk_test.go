package uichat_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// A bot that shows no calls asks as well: its question is a call of its own, which ends with the answer. The state
// changes only because a person has answered.
func TestQuestionOfAnyBot(t *testing.T) {
	type account struct {
		Asks  string
		Cents int
	}
	pay := func(_ context.Context, t *orchestrator.Turn[account]) error {
		switch {
		case t.Input.Origin != orchestrator.FromAnswer:
			t.State.Asks = "q1"
		case t.Input.Text == "yes":
			t.State.Asks, t.State.Cents = "", 250
		default:
			t.State.Asks = ""
		}
		return nil
	}
	bot, err := orchestrator.New(orchestrator.Definition[account]{
		Name: "pay", Intents: orchestrator.Intents[account]{"pay": {Run: pay}},
	}, new(checkpoint.Memory), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := uichat.Handler(bot, turnhttp.Options[account]{
		Authorize: may,
		Reply:     func(r *orchestrator.Result[account]) any { return turnhttp.Reply{Data: r.State} },
		Questions: func(s *account) (all []approval.Question) {
			if s.Asks != "" {
				all = append(all, approval.Question{ID: s.Asks, Shown: map[string]int{"cents": 250}})
			}
			return all
		},
		Answer: func(_ approval.Question, a approval.Answer) (in orchestrator.Input, err error) {
			var body struct{ Approved bool }
			err = json.Unmarshal(a.Data, &body)
			in.Text = map[bool]string{true: "yes", false: "no"}[body.Approved]
			return in, err
		},
		Inbox: new(inbox.Memory),
	}, nil)
	a := post(t, h, "ann", submit, "", user("m1", "pay"))
	want(t, "call", a.of("tool-input-available")[0]["input"], map[string]any{"cents": 250})
	want(t, "by ann", post(t, h, "ann", submit, a.message(), a.approves(true)).code, http.StatusForbidden)
	if got := do(t, h, "ann", "GET", "/api/chat/s/messages", "").body; !strings.Contains(got, "approval-requested") {
		t.Error(got)
	}
	b := post(t, h, "desk", submit, a.message(), a.approves(true))
	want(t, "outcome", b.of("tool-output-available")[0]["output"], "approved")
	want(t, "state", b.of("data-reply")[0]["data"], map[string]any{"Asks": "", "Cents": 250})
	want(t, "message", b.message(), a.message())
}
