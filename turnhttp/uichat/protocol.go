package uichat

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/tell"
)

// A protocol is the protocol of the AI SDK.
type protocol struct {
	out  *front.Sender
	step bool // one has begun
	next bool // another one begins with what comes next

	page *page // nil: a program has called Write
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
	Executed         *bool           `json:"providerExecuted,omitempty"`
	ApprovalID       string          `json:"approvalId,omitempty"`
	Data             any             `json:"data,omitempty"`
	Transient        bool            `json:"transient,omitempty"`
	FinishReason     string          `json:"finishReason,omitempty"`
	MessageMetadata  any             `json:"messageMetadata,omitempty"`
	ProviderMetadata any             `json:"providerMetadata,omitempty"`
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
func (p *protocol) Begin(run string) {
	if p.page != nil {
		run = p.page.begin(run)
	}
	p.out.Data(chunk{Type: "start", MessageID: run})
	if p.page != nil {
		for _, c := range p.page.before {
			p.out.Data(c)
		}
	}
}

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
	if p.page != nil {
		p.page.items = nil
	}
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

// Call implements [tell.Protocol]. It says that the page need not run the call, unless the reply asks it to.
func (p *protocol) Call(c *tell.Call) {
	p.begin()
	p.put(c.ID, chunk{
		Type: "tool-input-available", ToolCallID: c.ID, ToolName: c.Name, Input: c.Args, Dynamic: true, Executed: yes(),
	})
	if p.page != nil {
		p.page.calls[c.ID] = c
	}
}

func yes() *bool { return new(true) }

// Result implements [tell.Protocol].
func (p *protocol) Result(c *tell.Call, output json.RawMessage, fault string) {
	if p.page != nil && p.page.calls[c.ID] == nil && !p.page.knows[c.ID] {
		p.Call(&tell.Call{ID: c.ID, Name: "tool", Args: tell.None}) // the AI SDK refuses a result without its call
	}
	out := chunk{Type: "tool-output-available", ToolCallID: c.ID, Output: output, Dynamic: true, Executed: yes()}
	switch {
	case fault != "" && p.page != nil && p.page.denied[c.ID]:
		out = chunk{Type: "tool-output-denied", ToolCallID: c.ID}
	case fault != "":
		out.Type, out.ErrorText = "tool-output-error", fault
	}
	p.put(c.ID, out)
	if p.page != nil {
		delete(p.page.denied, c.ID)
	}
}

// Undo implements [tell.Protocol].
func (p *protocol) Undo(c *tell.Call, fault string) {
	if !p.reset(c.ID) {
		p.Result(c, nil, fault)
	}
}

// Reasoning implements [tell.Protocol].
func (p *protocol) Reasoning(id, text string) {
	p.begin()
	p.put(id, chunk{Type: "reasoning-start", ID: id}, chunk{Type: "reasoning-delta", ID: id, Delta: text},
		chunk{Type: "reasoning-end", ID: id})
}

// Text implements [tell.Protocol].
func (p *protocol) Text(w *tell.Words) {
	p.begin()
	p.put(w.ID, chunk{Type: "text-start", ID: w.ID, ProviderMetadata: metadataOf(w, false)})
}

// Say implements [tell.Protocol].
func (p *protocol) Say(w *tell.Words, delta string) {
	p.put(w.ID, chunk{Type: "text-delta", ID: w.ID, Delta: delta})
}

// Close implements [tell.Protocol].
func (p *protocol) Close(w *tell.Words, void bool) {
	if !void || !p.reset(w.ID) {
		p.put(w.ID, chunk{Type: "text-end", ID: w.ID, ProviderMetadata: metadataOf(w, void)})
	}
}

// Retract implements [tell.Protocol].
func (p *protocol) Retract(w *tell.Words) {
	if !p.reset(w.ID) {
		p.out.Data(chunk{Type: "data-void", ID: w.ID, Data: map[string]string{"id": w.ID}})
	}
}

// put sends chunks of a part of the step.
func (p *protocol) put(id string, all ...chunk) {
	for _, c := range all {
		p.out.Data(c)
	}
	if p.page != nil {
		p.page.note(id, all)
	}
}

// reset takes a part of the step back, if the page can: it clears the step, and sends the rest of it again.
func (p *protocol) reset(id string) bool {
	if p.page == nil || !p.page.drop(id) {
		return false
	}
	p.out.Data(chunk{Type: "reset-step"})
	for _, c := range p.page.again() {
		p.out.Data(c)
	}
	return true
}

// Finish implements [tell.Protocol].
func (p *protocol) Finish(r tell.Reply) {
	last := chunk{Type: "finish", FinishReason: "stop"}
	if r.Data != nil {
		p.out.Data(chunk{Type: "data-reply", Data: r.Data})
	}
	for i, q := range r.Questions {
		last.FinishReason = "tool-calls"
		if p.page == nil {
			last.FinishReason = "stop"
			p.out.Data(chunk{Type: "data-question", ID: q.ID, Data: q})
			continue
		}
		p.page.ask(p, r.Reply.Questions[i].Client, q)
	}
	if p.page != nil {
		last.MessageMetadata = metadataOfTurn(r.Usage)
		if len(r.Questions) == 0 {
			p.page.close(p)
		}
	}
	p.end(last)
}

// Suspend implements [tell.Protocol].
func (p *protocol) Suspend(doc front.Problem) {
	p.out.Data(chunk{Type: "data-suspended", Data: doc})
	p.end(chunk{Type: "finish", FinishReason: "other"})
}

// Stop implements [tell.Protocol].
func (p *protocol) Stop() {
	if p.page != nil { // abort alone is no finish
		p.out.Data(chunk{Type: "finish", FinishReason: "other"})
	}
	p.end(chunk{Type: "abort"})
}

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
