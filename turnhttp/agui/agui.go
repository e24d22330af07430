package agui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// version is the version of the protocol.
const version = "1.0"

// Write answers with the events of AG-UI 1.0, as server-sent events:
//
//	mux.HandleFunc("POST /agent", func(w http.ResponseWriter, r *http.Request) {
//		turn := bot.Stream(context.WithoutCancel(r.Context()), in.ThreadID, input(in), nil)
//		show := turnhttp.ShowTurn(in.ThreadID, turn, reply)
//		show.Run = in.RunID
//		_ = agui.Write(w, r, show)
//	})
//
// A run is one turn. A text message has the tokens of one function of the bot. An intent is a step, or a tool call if
// Show.Tools names it. Reply.Data is the result of the run. If the turn has settled with questions, or a person has to
// answer for effects, the run finishes with the outcome "interrupt", and each interrupt has the id of a question or of
// an effect. What the person sees, and its hash, are metadata.holdfast.shown and sum of the interrupt. A turn that was
// abandoned ends with RUN_ERROR: see Options.Cancelled.
//
// The protocol cannot take a message back. If a later attempt says it anew, metadata.holdfast.void of the message is
// true, and a page has to hide it. An event CUSTOM with the name "holdfast.void" says the same: its value has the
// messageId.
//
// An error before the first event is answered as turnhttp.Problem does. Write returns the error that the client was
// told of, or why the client has gone. The caller logs it.
func Write(w http.ResponseWriter, r *http.Request, s turnhttp.Show) error {
	return tell.Run(w, r, s, "", func(out *front.Sender) tell.Protocol {
		return &protocol{out: out, session: s.Session}
	})
}

// A protocol is the protocol of AG-UI.
type protocol struct {
	out          *front.Sender
	session, run string
	client       *client // of Handler; nil of Write
}

// An event is an event of AG-UI.
type event struct {
	Type            string          `json:"type"`
	Timestamp       int64           `json:"timestamp"`
	ThreadID        string          `json:"threadId,omitempty"`
	RunID           string          `json:"runId,omitempty"`
	ProtocolVersion string          `json:"protocolVersion,omitempty"`
	StepName        string          `json:"stepName,omitempty"`
	MessageID       string          `json:"messageId,omitempty"`
	Role            string          `json:"role,omitempty"`
	Delta           any             `json:"delta,omitempty"`
	ToolCallID      string          `json:"toolCallId,omitempty"`
	ToolCallName    string          `json:"toolCallName,omitempty"`
	ParentMessageID string          `json:"parentMessageId,omitempty"`
	Content         *string         `json:"content,omitempty"`
	Name            string          `json:"name,omitempty"`
	Value           any             `json:"value,omitempty"`
	Result          json.RawMessage `json:"result,omitempty"`
	Outcome         *outcome        `json:"outcome,omitempty"`
	Usage           []usage         `json:"usage,omitempty"`
	Message         string          `json:"message,omitempty"`
	Code            string          `json:"code,omitempty"`
	Messages        *[]any          `json:"messages,omitempty"`
	Snapshot        json.RawMessage `json:"snapshot,omitempty"`
	Metadata        map[string]any  `json:"metadata,omitempty"`
}

type outcome struct {
	Type       string      `json:"type"`
	Interrupts []interrupt `json:"interrupts,omitempty"`

	// Pending are the calls that the client's side has to make.
	Pending []string `json:"pendingToolCallIds,omitempty"`
}

type interrupt struct {
	ID         string          `json:"id"`
	Reason     string          `json:"reason"`
	Message    string          `json:"message,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	Form       json.RawMessage `json:"responseSchema,omitempty"`
	ExpiresAt  *time.Time      `json:"expiresAt,omitempty"`
	Metadata   any             `json:"metadata,omitempty"`
}

type usage struct {
	Provider     string `json:"provider,omitempty"`
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

func (p *protocol) send(ev event) {
	if p.client != nil && p.client.passes(p, &ev) {
		return
	}
	p.put(ev)
}

func (p *protocol) put(ev event) {
	ev.Timestamp = time.Now().UnixMilli()
	p.out.Data(ev)
}

// Begin implements [tell.Protocol].
func (p *protocol) Begin(run string) {
	p.run = run
	if p.client != nil {
		p.run = p.client.input.RunID
	}
	p.put(event{Type: "RUN_STARTED", ThreadID: p.session, RunID: p.run, ProtocolVersion: version})
	if p.client != nil {
		p.client.begin(p, run)
	}
}

// Iteration implements [tell.Protocol].
func (p *protocol) Iteration() {}

// Intent implements [tell.Protocol].
func (p *protocol) Intent(d *tell.Doing) {
	if !d.Tool {
		p.send(event{Type: "STEP_STARTED", StepName: d.Name})
		return
	}
	name, _ := d.Intent()
	p.send(event{Type: "TOOL_CALL_START", ToolCallID: d.ID, ToolCallName: name})
	p.send(event{Type: "TOOL_CALL_ARGS", ToolCallID: d.ID, Delta: string(tell.None)})
	p.send(event{Type: "TOOL_CALL_END", ToolCallID: d.ID})
}

// Ended implements [tell.Protocol].
func (p *protocol) Ended(d *tell.Doing, fault string) {
	if !d.Tool {
		p.send(event{Type: "STEP_FINISHED", StepName: d.Name})
		return
	}
	// A call without a result would be one that the page has to make.
	p.send(event{Type: "TOOL_CALL_RESULT", MessageID: d.ID + "-result", ToolCallID: d.ID, Content: &fault})
}

// Call implements [tell.Protocol].
func (p *protocol) Call(c *tell.Call) {
	if p.client != nil { // a client would add the new arguments to the old ones
		p.client.dropCall(p, c.ID)
	}
	p.send(event{Type: "TOOL_CALL_START", ToolCallID: c.ID, ToolCallName: c.Name})
	p.send(event{Type: "TOOL_CALL_ARGS", ToolCallID: c.ID, Delta: string(c.Args)})
	p.send(event{Type: "TOOL_CALL_END", ToolCallID: c.ID})
}

// Result implements [tell.Protocol].
func (p *protocol) Result(c *tell.Call, output json.RawMessage, fault string) {
	content := fault
	if fault == "" && json.Unmarshal(output, &content) != nil {
		content = string(output) // an object or an array
	}
	p.send(event{Type: "TOOL_CALL_RESULT", MessageID: c.ID + "-result", ToolCallID: c.ID, Content: &content})
}

// Undo implements [tell.Protocol].
func (p *protocol) Undo(c *tell.Call, fault string) {
	if p.client != nil {
		p.client.dropCall(p, c.ID)
		return
	}
	p.Result(c, nil, fault)
}

// Reasoning implements [tell.Protocol].
func (p *protocol) Reasoning(id, text string) {
	p.send(event{Type: "REASONING_START", MessageID: id})
	p.send(event{Type: "REASONING_MESSAGE_START", MessageID: id, Role: "reasoning"})
	p.send(event{Type: "REASONING_MESSAGE_CONTENT", MessageID: id, Delta: text})
	p.send(event{Type: "REASONING_MESSAGE_END", MessageID: id})
	p.send(event{Type: "REASONING_END", MessageID: id})
}

// Text implements [tell.Protocol].
func (p *protocol) Text(w *tell.Words) {
	p.send(event{Type: "TEXT_MESSAGE_START", MessageID: w.ID, Role: "assistant", Metadata: marked(w, false)})
}

// Say implements [tell.Protocol].
func (p *protocol) Say(w *tell.Words, delta string) {
	p.send(event{Type: "TEXT_MESSAGE_CONTENT", MessageID: w.ID, Delta: delta})
}

// Close implements [tell.Protocol].
func (p *protocol) Close(w *tell.Words, void bool) {
	end := event{Type: "TEXT_MESSAGE_END", MessageID: w.ID}
	if void {
		end.Metadata = marked(w, true)
	}
	p.send(end)
	switch {
	case void && p.client != nil:
		p.client.drop(p, w.ID)
	case void:
		p.custom("holdfast.void", map[string]string{"messageId": w.ID})
	}
}

// Retract implements [tell.Protocol]. Without a list of what the client has, it opens the message again, to say in its
// metadata that it is void.
func (p *protocol) Retract(w *tell.Words) {
	if p.client != nil {
		p.client.drop(p, w.ID)
		return
	}
	p.send(event{Type: "TEXT_MESSAGE_START", MessageID: w.ID, Role: "assistant"})
	p.Close(w, true)
}

// marked returns the mark of a text under the name of this module.
func marked(w *tell.Words, void bool) map[string]any { return map[string]any{"holdfast": w.Mark(void)} }

func (p *protocol) custom(name string, value any) {
	p.send(event{Type: "CUSTOM", Name: name, Value: value})
}

// Finish implements [tell.Protocol].
func (p *protocol) Finish(r tell.Reply) {
	end := event{Result: r.Data, Usage: usageOf(r.Usage), Outcome: &outcome{Type: "success"}}
	if p.client != nil {
		p.client.finish(p, r, &end)
		p.end(end)
		return
	}
	for _, q := range r.Questions {
		end.Outcome.Type = "interrupt"
		end.Outcome.Interrupts = append(end.Outcome.Interrupts, interrupt{
			ID: q.ID, Reason: reasonQuestion, ExpiresAt: q.Expires,
			Metadata: map[string]any{"holdfast": map[string]any{"shown": q.Shown, "sum": q.Sum}},
		})
	}
	p.end(end)
}

func usageOf(u orchestrator.Usage) []usage {
	if u.Input == 0 && u.Output == 0 {
		return nil
	}
	return []usage{{
		Provider: u.Provider, Model: u.Model,
		InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
	}}
}

// Suspend implements [tell.Protocol].
func (p *protocol) Suspend(doc front.Problem) {
	waits := &outcome{Type: "interrupt"}
	for _, id := range doc.Effects {
		waits.Interrupts = append(waits.Interrupts, interrupt{ID: id, Reason: reasonEffect, Message: doc.Title})
	}
	if len(doc.Effects) == 0 {
		id := cmp.Or(doc.Run, p.run)
		waits.Interrupts = []interrupt{{ID: id, Reason: reasonEffect, Message: doc.Title}}
	}
	p.end(event{Outcome: waits})
}

// Stop implements [tell.Protocol].
func (p *protocol) Stop() {
	if p.client != nil && p.client.cancelled {
		p.end(event{Outcome: &outcome{Type: "cancelled"}})
		return
	}
	p.Fail(front.Of(orchestrator.ErrAbandoned))
}

func (p *protocol) end(ev event) {
	ev.Type, ev.ThreadID, ev.RunID = "RUN_FINISHED", p.session, p.run
	p.send(ev)
}

// Fail implements [tell.Protocol].
func (p *protocol) Fail(doc front.Problem) {
	p.send(event{Type: "RUN_ERROR", Message: doc.Title, Code: doc.Type})
}
