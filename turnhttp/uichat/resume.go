package uichat

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/turnhttp"
)

var errReaders = &httpjson.Refusal{
	Type: "too-many-readers", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: 5 * time.Second,
	Text: "Too many readers are connected.",
}

// getStream shows the turn in flight. The page begins its message anew. So if the turn has taken an answer, the page
// gets first what the message had before.
func (s *server[S]) getStream(w http.ResponseWriter, r *http.Request, to target) error {
	defer s.readers.Add(-1)
	if s.readers.Add(1) > int64(s.o.MaxReaders) {
		return errReaders
	}
	g := newPage()
	st, err := s.inspect(r.Context(), to.session)
	if err != nil {
		return err
	}
	if st.Run != nil && strings.HasPrefix(st.Run.RequestID, approval.Prefix) {
		h, err := s.said(r.Context(), to.session, math.MaxInt, pageOf)
		if err != nil {
			return err
		}
		if n := len(h.Messages); n > 0 && h.Messages[n-1].Role == message.RoleAssistant {
			g.goesOn(h.Messages[n-1])
		}
	}
	s.write(w, r, turnhttp.ShowNewest(s.bot, to.session, s.reply), g)
	return nil
}

// goesOn says that the answer goes on with a message, which a page gets first.
func (g *page) goesOn(m *uiMessage) {
	g.message = m.ID
	for _, p := range m.Parts {
		if p.ToolCallID != "" {
			g.knows[p.ToolCallID] = true
			g.before = append(g.before, chunk{
				Type: "tool-input-available", ToolCallID: p.ToolCallID, ToolName: p.ToolName, Input: p.Input,
				Dynamic: true, Executed: yes(),
			})
		}
		switch {
		case p.Type == "step-start":
			g.before = append(g.before, chunk{Type: "start-step"})
		case p.Type == "text":
			const id = "before"
			g.before = append(g.before, chunk{Type: "text-start", ID: id},
				chunk{Type: "text-delta", ID: id, Delta: p.Text}, chunk{Type: "text-end", ID: id})
		case p.State == "output-available":
			g.before = append(g.before, chunk{
				Type: "tool-output-available", ToolCallID: p.ToolCallID, Output: p.Output,
			})
		case p.State == "output-error":
			g.before = append(g.before, chunk{
				Type: "tool-output-error", ToolCallID: p.ToolCallID, ErrorText: p.ErrorText,
			})
		case p.State == "approval-requested":
			g.before = append(g.before, chunk{
				Type: "tool-approval-request", ToolCallID: p.ToolCallID, ApprovalID: p.Approval.ID,
			})
		}
	}
}
