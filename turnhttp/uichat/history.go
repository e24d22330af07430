package uichat

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// A history is what was said, for a page.
type history struct {
	Messages []*uiMessage `json:"messages"`

	// Before is the number to ask for earlier messages with. It is missing if there are none.
	Before int `json:"before,omitempty"`
}

// A uiMessage is a UIMessage of the AI SDK.
type uiMessage struct {
	ID       string    `json:"id"`
	Role     string    `json:"role"`
	Metadata any       `json:"metadata,omitempty"`
	Parts    []*uiPart `json:"parts"`
}

// A uiPart is a part of a UIMessage.
type uiPart struct {
	Type         string              `json:"type"`
	Text         string              `json:"text,omitempty"`
	State        string              `json:"state,omitempty"`
	ToolCallID   string              `json:"toolCallId,omitempty"`
	ToolName     string              `json:"toolName,omitempty"`
	Input        json.RawMessage     `json:"input,omitempty"`
	Output       json.RawMessage     `json:"output,omitempty"`
	ErrorText    string              `json:"errorText,omitempty"`
	Executed     bool                `json:"providerExecuted,omitempty"`
	Approval     *uiApproval         `json:"approval,omitempty"`
	CallMetadata map[string]holdfast `json:"callProviderMetadata,omitempty"`
}

type uiApproval struct {
	ID string `json:"id"`
}

// How many messages a page of the history has, as the bot counts them.
const (
	pageOf   = 100
	pageMost = 200
)

// getMessages answers with what was said.
func (s *server[S]) getMessages(w http.ResponseWriter, r *http.Request, to target) error {
	before, limit := math.MaxInt, pageOf
	for name, v := range map[string]*int{"before": &before, "limit": &limit} {
		if text := r.URL.Query().Get(name); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 {
				return bad("The parameter " + name + " has to be a number in digits, 0 or more.")
			}
			*v = n
		}
	}
	h, err := s.said(r.Context(), to.session, before, min(max(limit, 1), pageMost))
	if err != nil {
		return err
	}
	return httpjson.Reply(w, http.StatusOK, h)
}

// said returns what was said before a number, and with the newest also what the run in flight has heard.
func (s *server[S]) said(ctx context.Context, session string, before, limit int) (h history, err error) {
	h.Messages = []*uiMessage{}
	st, err := s.inspect(ctx, session) // first, so that the messages are no older than what it says
	if err != nil {
		return h, err
	}
	b := &book[S]{server: s, session: session, ids: make(map[string]bool), runs: make(map[int]*orchestrator.Result[S])}
	if s.o.Chat != nil {
		h.Before, err = b.messages(ctx, before, limit)
	} else {
		h.Before, err = b.turns(ctx, before, limit)
	}
	if err == nil && before == math.MaxInt {
		if err = b.asks(ctx); err == nil && st.Run != nil {
			err = b.hears(ctx, st.Run)
		}
	}
	h.Messages = append(h.Messages, b.all...)
	return h, err
}

// A book collects UIMessages.
type book[S any] struct {
	*server[S]
	session string
	all     []*uiMessage
	ids     map[string]bool
	runs    map[int]*orchestrator.Result[S]
}

// open returns the message that a part goes into: the newest one, if it is of the assistant.
func (b *book[S]) open(id string) *uiMessage {
	if n := len(b.all); n > 0 && b.all[n-1].Role == message.RoleAssistant {
		return b.all[n-1]
	}
	return b.begin(id, message.RoleAssistant)
}

// begin begins a message. Each has an id of its own.
func (b *book[S]) begin(id, role string) *uiMessage {
	if id == "" || b.ids[id] {
		id = "message-" + strconv.Itoa(len(b.all)+1)
	}
	b.ids[id] = true
	m := &uiMessage{ID: id, Role: role, Parts: []*uiPart{}}
	b.all = append(b.all, m)
	return m
}

// messages collects what a Chat has. It begins with a message of the user, unless the page has none.
func (b *book[S]) messages(ctx context.Context, before, limit int) (earlier int, err error) {
	first := 0
	all, err := foreign.Ask("Options.Chat", func() (all []message.Message, err error) {
		all, first, err = b.o.Chat.Messages(ctx, b.session, before, limit)
		return all, err
	})
	if err != nil {
		return 0, err
	}
	if first > 0 {
		user := func(m message.Message) bool { return m.Role == message.RoleUser }
		if n := slices.IndexFunc(all, user); n > 0 {
			all, first = all[n:], first+n
		}
	}
	for i, m := range all {
		if m.Role == message.RoleUser {
			id := m.ID
			if id == "" {
				id = "message-" + strconv.Itoa(first+i)
			}
			u := b.begin(id, m.Role)
			for _, p := range turnhttp.PartsOf(m) {
				u.Parts = append(u.Parts, &uiPart{Type: "text", Text: p.Text})
			}
			continue
		}
		run, err := b.run(ctx, m.Turn)
		if err != nil {
			return 0, err
		}
		b.add(m, run)
	}
	return first, nil
}

// run returns a turn; nil if it is gone or cannot be read.
func (b *book[S]) run(ctx context.Context, turn int) (*orchestrator.Result[S], error) {
	if res, ok := b.runs[turn]; ok {
		return res, nil
	}
	res, err := b.bot.Turn(ctx, b.session, turn)
	if _, one := foreign.OneTurn(err); one || errors.Is(err, checkpoint.ErrNotFound) {
		res, err = nil, nil
	}
	b.runs[turn] = res
	return res, err
}

// add adds what a bot or a tool has said.
func (b *book[S]) add(m message.Message, run *orchestrator.Result[S]) {
	id := ""
	if run != nil {
		id = run.RunID
	}
	to := b.open(id)
	if run != nil {
		to.Metadata = metadataOfTurn(run.Usage)
	}
	if m.Role == message.RoleAssistant {
		to.Parts = append(to.Parts, &uiPart{Type: "step-start"})
	}
	for _, p := range turnhttp.PartsOf(m) {
		if b.ui.Part != nil {
			p = b.ui.Part(p)
		}
		switch p.Type {
		case turnhttp.PartText:
			to.Parts = append(to.Parts, &uiPart{Type: "text", Text: p.Text, State: "done"})
		case turnhttp.PartCall:
			if len(p.Args) == 0 {
				p.Args = tell.None
			}
			to.Parts = append(to.Parts, &uiPart{
				Type: "dynamic-tool", ToolCallID: p.ID, ToolName: p.Name, State: "input-available", Input: p.Args,
				Executed: true,
			})
		case turnhttp.PartResult:
			if call := to.call(p.ID); call != nil && p.Failed {
				call.State, call.ErrorText = "output-error", p.Text
			} else if call != nil {
				call.State, call.Output = "output-available", tell.Output(p.Text)
			}
		}
	}
}

func (m *uiMessage) call(id string) *uiPart {
	for _, p := range m.Parts {
		if p.ToolCallID == id && id != "" {
			return p
		}
	}
	return nil
}

// turns collects the turns of a bot that keeps no messages.
func (b *book[S]) turns(ctx context.Context, before, limit int) (earlier int, err error) {
	var all []*orchestrator.Result[S]
	for res, err := range b.bot.Turns(ctx, b.session) {
		if _, one := foreign.OneTurn(err); one {
			continue
		}
		if err != nil {
			return 0, err
		}
		if res.Turn >= before {
			continue
		}
		if len(all) == limit {
			earlier = all[len(all)-1].Turn
			break
		}
		all = append(all, res)
	}
	for _, res := range slices.Backward(all) {
		if in := res.Input; in.Origin == orchestrator.FromUser {
			u := b.begin(in.RequestID, message.RoleUser)
			u.Parts = append(u.Parts, &uiPart{Type: "text", Text: in.Text})
		}
		reply, err := foreign.Ask("Options.Reply", func() (turnhttp.Reply, error) { return b.reply(res), nil })
		if err != nil {
			return 0, err
		}
		if reply.Text != "" {
			b.add(message.Assistant(reply.Text), res)
		}
	}
	return earlier, nil
}

// asks adds what the newest turn asks.
func (b *book[S]) asks(ctx context.Context) error {
	if b.desk == nil {
		return nil
	}
	all, err := b.desk.Asked(ctx, b.session)
	for _, q := range all {
		if !q.Answered {
			b.ask(q)
		}
	}
	return err
}

func (b *book[S]) ask(q approval.Asked) {
	doc := front.Question{ID: q.ID, Shown: q.JSON, Sum: q.Sum}
	to := b.open("question-" + q.ID)
	call := to.call(q.ID)
	if call == nil {
		name, input := asked(doc)
		call = &uiPart{Type: "dynamic-tool", ToolCallID: q.ID, ToolName: name, State: "input-available", Input: input}
		to.Parts = append(to.Parts, call)
	}
	if call.Executed = !q.Client; q.Client {
		call.CallMetadata = holdfast{"sum": q.Sum}.of()
	} else {
		call.State, call.Approval = "approval-requested", &uiApproval{approvalID(doc)}
	}
}

// hears adds what the run in flight has heard, unless its turn has settled meanwhile. If it is an edit, what it
// replaces is gone.
func (b *book[S]) hears(ctx context.Context, run *orchestrator.InFlight) error {
	if run.Input.Origin != orchestrator.FromUser || strings.TrimSpace(run.Input.Text) == "" {
		return nil
	}
	if res, err := b.run(ctx, run.Turn); err != nil || res != nil && res.RunID == run.ID {
		return err
	}
	id := run.RequestID
	var data struct{ Anew *turnhttp.Edit }
	if strings.HasPrefix(id, prefix) && json.Unmarshal(run.Input.Data, &data) == nil && data.Anew != nil {
		id = data.Anew.ID
	}
	if i := slices.IndexFunc(b.all, func(m *uiMessage) bool { return m.ID == id }); i >= 0 {
		b.all = b.all[:i]
		delete(b.ids, id)
	}
	u := b.begin(id, message.RoleUser)
	u.Parts = append(u.Parts, &uiPart{Type: "text", Text: run.Input.Text})
	return nil
}
