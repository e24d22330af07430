package turnhttp

import (
	"encoding/json"
	"net/http"
)

// uiHeader marks a UI message stream.
const uiHeader = "X-Vercel-Ai-Ui-Message-Stream"

// UIMessages answers with the UI message stream of the AI SDK, for useChat of versions 5, 6 and 7:
//
//	mux.HandleFunc("POST /chat/{id}", func(w http.ResponseWriter, r *http.Request) {
//		turn := bot.Stream(context.WithoutCancel(r.Context()), r.PathValue("id"), input(r), nil)
//		_ = turnhttp.UIMessages(w, r, turnhttp.ShowTurn(r.PathValue("id"), turn, reply))
//	})
//
// One message is one turn, and its id the id of the run. A step is an iteration, and a text part what one function of
// the bot says. The intents of Show.Tools are dynamic tools. These parts are of our own:
//
//	data-intent     an intent begins; transient
//	data-void       the texts with the id of this part are void
//	data-reply      Reply.Data
//	data-question   a question, with id, shown, sum and expires
//	data-suspended  a person has to answer for effects: a problem document
//	data-problem    the problem document of the error that follows; transient
//
// The protocol cannot take a text back. If a later attempt says it anew, providerMetadata.holdfast.void of the text
// part is true, and a page has to hide that part. If the part has ended before, a part data-void comes, whose data.id
// is providerMetadata.holdfast.id of the text part.
//
// An error before the first event is answered as [Problem] does. UIMessages returns the error that the client was told
// of, or why the client has gone. The caller logs it.
func UIMessages(w http.ResponseWriter, r *http.Request, s Show) error {
	w.Header().Set(uiHeader, "v1")
	return tell(w, r, s, func(out *sender) protocol { return &uiMessages{out: out} })
}

// uiMessages is the protocol of the AI SDK.
type uiMessages struct {
	out  *sender
	step bool // one has begun
}

// A uiChunk is a chunk of a UI message stream.
type uiChunk struct {
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
	Data             any             `json:"data,omitempty"`
	Transient        bool            `json:"transient,omitempty"`
	FinishReason     string          `json:"finishReason,omitempty"`
	ProviderMetadata *uiMetadata     `json:"providerMetadata,omitempty"`
}

// uiMetadata is a mark with the id of its text, which the AI SDK does not keep.
type uiMetadata struct {
	Holdfast struct {
		ID string `json:"id"`
		mark
	} `json:"holdfast"`
}

func (w *words) uiMetadata(void bool) *uiMetadata {
	m := new(uiMetadata)
	m.Holdfast.ID, m.Holdfast.mark = w.id, w.mark(void).Holdfast
	return m
}

// none is a value that is not shown.
var none = json.RawMessage("{}")

func (p *uiMessages) begin(run string) { p.out.data(uiChunk{Type: "start", MessageID: run}) }

func (p *uiMessages) iteration() {
	p.endStep()
	p.step = true
	p.out.data(uiChunk{Type: "start-step"})
}

func (p *uiMessages) endStep() {
	if p.step {
		p.step = false
		p.out.data(uiChunk{Type: "finish-step"})
	}
}

func (p *uiMessages) intent(d *doing) {
	if !d.tool {
		p.out.data(uiChunk{
			Type: "data-intent", Transient: true, Data: map[string]any{"intent": d.intent, "item": d.item},
		})
		return
	}
	p.out.data(uiChunk{Type: "tool-input-start", ToolCallID: d.id, ToolName: d.intent, Dynamic: true})
	p.out.data(uiChunk{
		Type: "tool-input-available", ToolCallID: d.id, ToolName: d.intent, Input: none, Dynamic: true,
	})
}

func (p *uiMessages) ended(d *doing, fault string) {
	switch {
	case !d.tool:
	case fault != "":
		p.out.data(uiChunk{Type: "tool-output-error", ToolCallID: d.id, ErrorText: fault, Dynamic: true})
	default:
		p.out.data(uiChunk{Type: "tool-output-available", ToolCallID: d.id, Output: none, Dynamic: true})
	}
}

func (p *uiMessages) text(w *words) {
	p.out.data(uiChunk{Type: "text-start", ID: w.id, ProviderMetadata: w.uiMetadata(false)})
}

func (p *uiMessages) say(w *words, delta string) {
	p.out.data(uiChunk{Type: "text-delta", ID: w.id, Delta: delta})
}

func (p *uiMessages) close(w *words, void bool) {
	p.out.data(uiChunk{Type: "text-end", ID: w.id, ProviderMetadata: w.uiMetadata(void)})
}

func (p *uiMessages) retract(w *words) {
	p.out.data(uiChunk{Type: "data-void", ID: w.id, Data: map[string]string{"id": w.id}})
}

func (p *uiMessages) finish(r Reply) {
	if r.data != nil {
		p.out.data(uiChunk{Type: "data-reply", Data: r.data})
	}
	for _, q := range r.questions {
		p.out.data(uiChunk{Type: "data-question", ID: q.ID, Data: q})
	}
	p.end(uiChunk{Type: "finish", FinishReason: "stop"})
}

func (p *uiMessages) suspend(doc problem) {
	p.out.data(uiChunk{Type: "data-suspended", Data: doc})
	p.end(uiChunk{Type: "finish", FinishReason: "other"})
}

func (p *uiMessages) stop() { p.end(uiChunk{Type: "abort"}) }

func (p *uiMessages) fail(doc problem) {
	p.out.data(uiChunk{Type: "data-problem", Data: doc, Transient: true})
	p.end(uiChunk{Type: "error", ErrorText: doc.Title})
}

// end sends the last chunk.
func (p *uiMessages) end(last uiChunk) {
	p.endStep()
	p.out.data(last)
	p.out.send("data: [DONE]\n\n")
}
