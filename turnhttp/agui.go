package turnhttp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// aguiVersion is the version of the protocol that AGUI speaks.
const aguiVersion = "1.0"

// AGUI answers with the events of AG-UI 1.0, as server-sent events:
//
//	mux.HandleFunc("POST /agent", func(w http.ResponseWriter, r *http.Request) {
//		turn := bot.Stream(context.WithoutCancel(r.Context()), in.ThreadID, input(in), nil)
//		show := turnhttp.ShowTurn(in.ThreadID, turn, reply)
//		show.Run = in.RunID
//		_ = turnhttp.AGUI(w, r, show)
//	})
//
// A run is one turn. A text message has the tokens of one function of the bot. An intent is a step, or a tool call if
// Show.Tools names it. Reply.Data is the result of the run. If the turn has settled with questions, or a person has to
// answer for effects, the run finishes with the outcome "interrupt", and each interrupt has the id of a question or of
// an effect. What the person sees, and its hash, are metadata.holdfast.shown and sum of the interrupt. A turn that was
// abandoned finishes as "cancelled".
//
// The protocol cannot take a message back. If a later attempt says it anew, metadata.holdfast.void of the message is
// true, and a page has to hide it. An event CUSTOM with the name "holdfast.void" says the same: its value has the
// messageId.
//
// An error before the first event is answered as [Problem] does. AGUI returns the error that the client was told of, or
// why the client has gone. The caller logs it.
func AGUI(w http.ResponseWriter, r *http.Request, s Show) error {
	return tell(w, r, s, func(out *sender) protocol { return &agui{out: out, session: s.Session} })
}

// agui is the protocol of AG-UI.
type agui struct {
	out          *sender
	session, run string
}

// An aguiEvent is an event of AG-UI.
type aguiEvent struct {
	Type            string          `json:"type"`
	Timestamp       int64           `json:"timestamp"`
	ThreadID        string          `json:"threadId,omitempty"`
	RunID           string          `json:"runId,omitempty"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	StepName        string          `json:"stepName,omitempty"`
	MessageID       string          `json:"messageId,omitempty"`
	Role            string          `json:"role,omitempty"`
	Delta           string          `json:"delta,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	ToolCallName    string          `json:"toolCallName,omitempty"`
	Content         *string         `json:"content,omitempty"`
	Name            string          `json:"name,omitempty"`
	Value           any             `json:"value,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"`
	Outcome         *aguiOutcome    `json:"outcome,omitempty"`
	Usage           []aguiUsage     `json:"usage,omitempty"`
	Message         string          `json:"message,omitempty"`
	Code            string          `json:"code,omitempty"`
	Metadata        any             `json:"metadata,omitempty"`
}

type aguiOutcome struct {
	Type       string          `json:"type"`
	Interrupts []aguiInterrupt `json:"interrupts,omitempty"`
}

type aguiInterrupt struct {
	ID        string     `json:"id"`
	Reason    string     `json:"reason"`
	Message   string     `json:"message,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Metadata  any        `json:"metadata,omitempty"`
}

type aguiUsage struct {
	Model        string `json:"model,omitempty"`
	InputTokens  int    `json:"inputTokens"`
	OutputTokens int    `json:"outputTokens"`
	TotalTokens  int    `json:"totalTokens"`
}

// The reasons of interrupts.
const (
	reasonQuestion = "holdfast:question"
	reasonEffect   = "holdfast:effect"
)

func (p *agui) send(ev aguiEvent) {
	ev.Timestamp = time.Now().UnixMilli()
	p.out.data(ev)
}

func (p *agui) begin(run string) {
	p.run = run
	p.send(aguiEvent{Type: "RUN_STARTED", ThreadID: p.session, RunID: run, ProtocolVersion: aguiVersion})
}

func (p *agui) iteration() {}

func (p *agui) intent(d *doing) {
	if !d.tool {
		p.send(aguiEvent{Type: "STEP_STARTED", StepName: d.name})
		return
	}
	p.send(aguiEvent{Type: "TOOL_CALL_START", ToolCallID: d.id, ToolCallName: d.intent})
	p.send(aguiEvent{Type: "TOOL_CALL_ARGS", ToolCallID: d.id, Delta: string(none)})
	p.send(aguiEvent{Type: "TOOL_CALL_END", ToolCallID: d.id})
}

func (p *agui) ended(d *doing, fault string) {
	if !d.tool {
		p.send(aguiEvent{Type: "STEP_FINISHED", StepName: d.name})
		return
	}
	// A call without a result would be one that the page has to make.
	p.send(aguiEvent{Type: "TOOL_CALL_RESULT", MessageID: d.id + "-result", ToolCallID: d.id, Content: &fault})
}

func (p *agui) text(w *words) {
	p.send(aguiEvent{Type: "TEXT_MESSAGE_START", MessageID: w.id, Role: "assistant", Metadata: w.mark(false)})
}

func (p *agui) say(w *words, delta string) {
	p.send(aguiEvent{Type: "TEXT_MESSAGE_CONTENT", MessageID: w.id, Delta: delta})
}

func (p *agui) close(w *words, void bool) {
	end := aguiEvent{Type: "TEXT_MESSAGE_END", MessageID: w.id}
	if void {
		end.Metadata = w.mark(true)
	}
	p.send(end)
	if void {
		p.custom("holdfast.void", map[string]string{"messageId": w.id})
	}
}

// retract opens the message again, to say in its metadata that it is void.
func (p *agui) retract(w *words) {
	p.send(aguiEvent{Type: "TEXT_MESSAGE_START", MessageID: w.id, Role: "assistant"})
	p.close(w, true)
}

func (p *agui) custom(name string, value any) {
	p.send(aguiEvent{Type: "CUSTOM", Name: name, Value: value})
}

func (p *agui) finish(r Reply) {
	end := aguiEvent{Result: r.data, Usage: aguiUsageOf(r.Usage), Outcome: &aguiOutcome{Type: "success"}}
	for _, q := range r.questions {
		end.Outcome.Type = "interrupt"
		end.Outcome.Interrupts = append(end.Outcome.Interrupts, aguiInterrupt{
			ID: q.ID, Reason: reasonQuestion, ExpiresAt: q.Expires,
			Metadata: map[string]any{"holdfast": map[string]any{"shown": q.Shown, "sum": q.Sum}},
		})
	}
	p.end(end)
}

func aguiUsageOf(u orchestrator.Usage) []aguiUsage {
	if u.Input == 0 && u.Output == 0 {
		return nil
	}
	return []aguiUsage{{
		Model: u.Model, InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
	}}
}

func (p *agui) suspend(doc problem) {
	waits := &aguiOutcome{Type: "interrupt"}
	for _, id := range doc.Effects {
		waits.Interrupts = append(waits.Interrupts, aguiInterrupt{ID: id, Reason: reasonEffect, Message: doc.Title})
	}
	if len(doc.Effects) == 0 {
		id := cmp.Or(doc.Run, p.run)
		waits.Interrupts = []aguiInterrupt{{ID: id, Reason: reasonEffect, Message: doc.Title}}
	}
	p.end(aguiEvent{Outcome: waits})
}

func (p *agui) stop() { p.end(aguiEvent{Outcome: &aguiOutcome{Type: "cancelled"}}) }

func (p *agui) end(ev aguiEvent) {
	ev.Type, ev.ThreadID, ev.RunID = "RUN_FINISHED", p.session, p.run
	p.send(ev)
}

func (p *agui) fail(doc problem) {
	p.send(aguiEvent{Type: "RUN_ERROR", Message: doc.Title, Code: doc.Type})
}
