// Package uichat writes a turn as a UI message stream of Vercel's AI SDK, for pages with useChat.
package uichat

import (
	"encoding/json"
	"net/http"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// header marks a UI message stream.
const header = "X-Vercel-Ai-Ui-Message-Stream"

// Write answers with the UI message stream of the AI SDK, for useChat of versions 5, 6 and 7:
//
//	mux.HandleFunc("POST /chat/{id}", func(w http.ResponseWriter, r *http.Request) {
//		turn := bot.Stream(context.WithoutCancel(r.Context()), r.PathValue("id"), input(r), nil)
//		_ = uichat.Write(w, r, turnhttp.ShowTurn(r.PathValue("id"), turn, reply))
//	})
//
// One message is one turn, and its id the id of the run. A step is an iteration, and a text part what one function of
// the bot says. The intents of turnhttp.Show.Tools are dynamic tools. These parts are of our own:
//
//	data-intent     an intent begins; transient
//	data-void       the texts with the id of this part are void
//	data-reply      turnhttp.Reply.Data
//	data-question   a question, with id, shown, sum and expires
//	data-suspended  a person has to answer for effects: a problem document
//	data-problem    the problem document of the error that follows; transient
//
// The protocol cannot take a text back. If a later attempt says it anew, providerMetadata.holdfast.void of the text
// part is true, and a page has to hide that part. If the part has ended before, a part data-void comes, whose data.id
// is providerMetadata.holdfast.id of the text part.
//
// An error before the first event is answered as turnhttp.Problem does. Write returns the error that the client was
// told of, or why the client has gone. The caller logs it.
func Write(w http.ResponseWriter, r *http.Request, s turnhttp.Show) error {
	w.Header().Set(header, "v1")
	return tell.Run(w, r, s, header, func(out *front.Sender) tell.Protocol { return &protocol{out: out} })
}

// A protocol is the protocol of the AI SDK.
type protocol struct {
	out  *front.Sender
	step bool // one has begun
	next bool // another one begins with what comes next
}

// A chunk is a chunk of a UI message stream.
type chunk struct {
	Type             string          `json:"type"`
	ID               string          `json:"id,omitempty"`
	MessageID        string          `json:"messageId,omitempty"`
	Delta            string          `json:"delta,omitempty"`
	ErrorText        string          `json:"errorText,omitempty"`
	ToolCallID       string          `json:"toolCallId,omitempty"`
	ToolName         string          `json:"toolName,omitempty"`
	Input            json.RawMessage `json:"input,omitempty"`
	Output           json.RawMessage `json:"output,omitempty"`
	Dynamic          bool            `json:"dynamic,omitempty"`
	Executed         bool            `json:"providerExecuted,omitempty"`
	Data             any             `json:"data,omitempty"`
	Transient        bool            `json:"transient,omitempty"`
	FinishReason     string          `json:"finishReason,omitempty"`
	ProviderMetadata *metadata       `json:"providerMetadata,omitempty"`
}

// metadata is a mark with the id of its text, which the AI SDK does not keep.
type metadata struct {
	Holdfast struct {
		ID string `json:"id"`
		tell.Mark
	} `json:"holdfast"`
}

func metadataOf(w *tell.Words, void bool) *metadata {
	m := new(metadata)
	m.Holdfast.ID, m.Holdfast.Mark = w.ID, w.Mark(void)
	return m
}

// Begin implements [tell.Protocol].
func (p *protocol) Begin(run string) { p.out.Data(chunk{Type: "start", MessageID: run}) }

// Iteration implements [tell.Protocol]. A step begins with what is said or called in it. So the results of tools are in
// the step of their calls, as the AI SDK has it.
func (p *protocol) Iteration() {
	p.next = true
	if !p.step {
		p.begin()
	}
}

// begin begins a step if it is time for one.
func (p *protocol) begin() {
	if !p.next {
		return
	}
	p.endStep()
	p.next, p.step = false, true
	p.out.Data(chunk{Type: "start-step"})
}

func (p *protocol) endStep() {
	if p.step {
		p.step = false
		p.out.Data(chunk{Type: "finish-step"})
	}
}

// Intent implements [tell.Protocol].
func (p *protocol) Intent(d *tell.Doing) {
	intent, item := d.Intent()
	if d.Tool {
		p.begin()
	} else {
		p.out.Data(chunk{
			Type: "data-intent", Transient: true, Data: map[string]any{"intent": intent, "item": item},
		})
		return
	}
	p.out.Data(chunk{Type: "tool-input-start", ToolCallID: d.ID, ToolName: intent, Dynamic: true})
	p.out.Data(chunk{
		Type: "tool-input-available", ToolCallID: d.ID, ToolName: intent, Input: tell.None, Dynamic: true,
	})
}

// Ended implements [tell.Protocol].
func (p *protocol) Ended(d *tell.Doing, fault string) {
	switch {
	case !d.Tool:
	case fault != "":
		p.out.Data(chunk{Type: "tool-output-error", ToolCallID: d.ID, ErrorText: fault, Dynamic: true})
	default:
		p.out.Data(chunk{Type: "tool-output-available", ToolCallID: d.ID, Output: tell.None, Dynamic: true})
	}
}

// Call implements [tell.Protocol].
func (p *protocol) Call(c *tell.Call) {
	p.begin()
	p.out.Data(chunk{
		Type: "tool-input-available", ToolCallID: c.ID, ToolName: c.Name, Input: c.Args, Dynamic: true, Executed: true,
	})
}

// Result implements [tell.Protocol].
func (p *protocol) Result(c *tell.Call, output json.RawMessage, fault string) {
	out := chunk{Type: "tool-output-available", ToolCallID: c.ID, Output: output, Dynamic: true, Executed: true}
	if fault != "" {
		out.Type, out.ErrorText = "tool-output-error", fault
	}
	p.out.Data(out)
}

// Reasoning implements [tell.Protocol].
func (p *protocol) Reasoning(id, text string) {
	p.begin()
	p.out.Data(chunk{Type: "reasoning-start", ID: id})
	p.out.Data(chunk{Type: "reasoning-delta", ID: id, Delta: text})
	p.out.Data(chunk{Type: "reasoning-end", ID: id})
}

// Text implements [tell.Protocol].
func (p *protocol) Text(w *tell.Words) {
	p.begin()
	p.out.Data(chunk{Type: "text-start", ID: w.ID, ProviderMetadata: metadataOf(w, false)})
}

// Say implements [tell.Protocol].
func (p *protocol) Say(w *tell.Words, delta string) {
	p.out.Data(chunk{Type: "text-delta", ID: w.ID, Delta: delta})
}

// Close implements [tell.Protocol].
func (p *protocol) Close(w *tell.Words, void bool) {
	p.out.Data(chunk{Type: "text-end", ID: w.ID, ProviderMetadata: metadataOf(w, void)})
}

// Retract implements [tell.Protocol].
func (p *protocol) Retract(w *tell.Words) {
	p.out.Data(chunk{Type: "data-void", ID: w.ID, Data: map[string]string{"id": w.ID}})
}

// Finish implements [tell.Protocol].
func (p *protocol) Finish(r tell.Reply) {
	if r.Data != nil {
		p.out.Data(chunk{Type: "data-reply", Data: r.Data})
	}
	for _, q := range r.Questions {
		p.out.Data(chunk{Type: "data-question", ID: q.ID, Data: q})
	}
	p.end(chunk{Type: "finish", FinishReason: "stop"})
}

// Suspend implements [tell.Protocol].
func (p *protocol) Suspend(doc front.Problem) {
	p.out.Data(chunk{Type: "data-suspended", Data: doc})
	p.end(chunk{Type: "finish", FinishReason: "other"})
}

// Stop implements [tell.Protocol].
func (p *protocol) Stop() { p.end(chunk{Type: "abort"}) }

// Fail implements [tell.Protocol].
func (p *protocol) Fail(doc front.Problem) {
	p.out.Data(chunk{Type: "data-problem", Data: doc, Transient: true})
	p.end(chunk{Type: "error", ErrorText: doc.Title})
}

// end sends the last chunk.
func (p *protocol) end(last chunk) {
	p.endStep()
	p.out.Data(last)
	p.out.Send("data: [DONE]\n\n")
}
