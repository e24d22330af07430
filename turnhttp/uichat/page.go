package uichat

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/tell"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A page is what a page of the AI SDK 7 has of a message: so it need not be told again, and can be taken back.
type page struct {
	message string          // the id of the message that goes on; "" begins one
	before  []chunk         // what it has already, for a page that begins it anew
	knows   map[string]bool // the ids of its calls
	denied  map[string]bool // those that a person has just answered: whether they were denied

	calls   map[string]*tell.Call // that this answer has shown
	results map[string]*uiPart    // of calls in denied, as the history has them
	items   []item                // of the step
}

// An item is a part of a step.
type item struct {
	id     string
	chunks []chunk
	said   *strings.Builder // the deltas, which stand in chunks as one
}

func newPage() *page {
	return &page{knows: make(map[string]bool), denied: make(map[string]bool), calls: make(map[string]*tell.Call)}
}

// begin returns the id of the message.
func (g *page) begin(run string) string { return cmp.Or(g.message, run) }

// note keeps what was sent of a part. A delta joins the one before.
func (g *page) note(id string, all []chunk) {
	i := slices.IndexFunc(g.items, func(it item) bool { return it.id == id })
	if i < 0 && !g.own(all) {
		return
	}
	if i < 0 {
		g.items = append(g.items, item{id: id})
		i = len(g.items) - 1
	}
	it := &g.items[i]
	for _, c := range all {
		if c.Delta == "" {
			it.chunks = append(it.chunks, c)
			continue
		}
		if it.said == nil {
			it.said = new(strings.Builder)
			it.chunks = append(it.chunks, chunk{Type: c.Type, ID: c.ID})
		}
		it.said.WriteString(c.Delta)
	}
}

// again returns what was sent of the step.
func (g *page) again() (all []chunk) {
	for _, it := range g.items {
		for _, c := range it.chunks {
			if strings.HasSuffix(c.Type, "-delta") {
				c.Delta = it.said.String()
			}
			all = append(all, c)
		}
	}
	return all
}

// own reports whether chunks begin a part: what follows one of an earlier step does not.
func (*page) own(all []chunk) bool {
	return strings.HasSuffix(all[0].Type, "-start") || all[0].Type == "tool-input-available"
}

// drop forgets a part of the step, and reports whether there was one.
func (g *page) drop(id string) bool {
	n := len(g.items)
	g.items = slices.DeleteFunc(g.items, func(it item) bool { return it.id == id })
	delete(g.calls, id)
	return len(g.items) < n
}

// approvalID returns the id under which a page approves a call. It has the sum of what the person was shown.
func approvalID(q front.Question) string { return q.Sum + "/" + q.ID }

// close ends the calls that a person has answered, and whose results the turn has not shown: those of a child, of a bot
// that shows no calls, or of an answer that was given before.
func (g *page) close(p *protocol) {
	for _, id := range slices.Sorted(maps.Keys(g.denied)) {
		out := chunk{Type: "tool-output-available", ToolCallID: id, Output: json.RawMessage(`"approved"`)}
		switch result := g.results[id]; {
		case g.denied[id]:
			out = chunk{Type: "tool-output-denied", ToolCallID: id}
		case result != nil && result.State == "output-error":
			out = chunk{Type: "tool-output-error", ToolCallID: id, ErrorText: result.ErrorText}
		case result != nil:
			out.Output = result.Output
		}
		p.out.Data(out)
	}
}

// ask asks for an approval, or asks the page to run a call.
func (g *page) ask(p *protocol, client bool, q front.Question) {
	name, input := asked(q)
	call := chunk{Type: "tool-input-available", ToolCallID: q.ID, ToolName: name, Input: input, Dynamic: true}
	if c := g.calls[q.ID]; c != nil {
		call.ToolName, call.Input = c.Name, c.Args
	}
	switch {
	case client && (g.calls[q.ID] != nil || !g.knows[q.ID]):
		call.Executed, call.ProviderMetadata = new(false), holdfast{"sum": q.Sum}.of()
		p.out.Data(call)
	case client:
	default:
		if g.calls[q.ID] == nil && !g.knows[q.ID] {
			call.Executed = yes()
			p.out.Data(call)
		}
		p.out.Data(chunk{Type: "tool-approval-request", ToolCallID: q.ID, ApprovalID: approvalID(q)})
	}
}

// asked returns the tool and the input of a question that no call has shown.
func asked(q front.Question) (tool string, input json.RawMessage) {
	var shown struct {
		Tool string          `json:"tool"`
		Kind string          `json:"kind"`
		Args json.RawMessage `json:"args"`
	}
	if json.Unmarshal(q.Shown, &shown) == nil && shown.Tool != "" && shown.Args != nil && shown.Kind != "input" {
		return shown.Tool, shown.Args
	}
	return cmp.Or(shown.Tool, "question"), q.Shown
}

// A holdfast is metadata that this module adds, under its own name.
type holdfast map[string]string

func (h holdfast) of() map[string]holdfast { return map[string]holdfast{"holdfast": h} }

// A turnMetadata is the metadata of a message.
type turnMetadata struct {
	Usage turnUsage `json:"usage"`
}

// A turnUsage has the names of the AI SDK, and the cost.
type turnUsage struct {
	InputTokens  int     `json:"inputTokens"`
	OutputTokens int     `json:"outputTokens"`
	TotalTokens  int     `json:"totalTokens"`
	Cost         float64 `json:"cost,omitempty"`
	Model        string  `json:"model,omitempty"`
}

func metadataOfTurn(u orchestrator.Usage) turnMetadata {
	return turnMetadata{turnUsage{u.Input, u.Output, u.Input + u.Output, u.Cost, u.Model}}
}
