package responses

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"
	api "github.com/openai/openai-go/v3/responses"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/retry"
)

// Reply implements agent.Model.
func (m *Model) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	p, err := m.params(r)
	if err != nil {
		return agent.Reply{}, retry.Permanent(err)
	}
	stream := m.api.NewStreaming(ctx, p)
	defer func() { _ = stream.Close() }()
	d := draft{vendor: m.vendor, token: token}
	for err == nil && d.end == "" && stream.Next() {
		err = d.add(stream.Current(), r.Tools)
	}
	reply := agent.Reply{Usage: m.o.Prices.Usage(m.vendor.Model, d.used)}
	reply.Usage.Provider = m.vendor.Name
	if err != nil {
		return reply, err
	}
	told, said := errors.AsType[*ssestream.StreamError](stream.Err())
	switch {
	case said:
		return reply, m.vendor.Told(told.Event.Data, r.Tools)
	case d.end == "" && stream.Err() != nil:
		return reply, m.vendor.Failed(stream.Err(), r.Tools)
	case d.end == "":
		return reply, m.vendor.CutOff()
	case d.refusal != "" || d.why == "content_filter":
		return reply, m.vendor.Declined(d.refusal)
	}
	reply.Message, reply.Cut = d.message(), d.end == incomplete
	return reply, nil
}

// The events that are looked at.
const (
	textDelta  = "response.output_text.delta"
	itemDone   = "response.output_item.done"
	completed  = "response.completed"
	incomplete = "response.incomplete"
	failed     = "response.failed"
	fault      = "error"
)

// A draft is what has come of a reply. Its items are those that are whole: half a call is none.
type draft struct {
	vendor   modelapi.Vendor
	token    func(string)
	text     strings.Builder // of an item that is not whole yet
	blocks   []message.Block
	refusal  string
	id       string
	end, why string // the last event, and why it is not completed
	used     models.Tokens
	size     modelapi.Size
}

// add adds an event. Unknown ones are left out: the API has many, and gets new ones.
func (d *draft) add(e api.ResponseStreamEventUnion, tools []agent.Tool) error {
	switch e.Type {
	case textDelta:
		d.text.WriteString(e.Delta)
		if e.Delta != "" {
			d.token(e.Delta)
		}
		return d.size.Add(e.Delta)
	case itemDone:
		return d.item(e.Item)
	case completed, incomplete, failed:
		in := e.Response.Usage.InputTokensDetails
		d.used = models.Tokens{
			Input: int(e.Response.Usage.InputTokens), Output: int(e.Response.Usage.OutputTokens),
			Cached: int(in.CachedTokens), Written: int(in.CacheWriteTokens),
		}
		d.id, d.end, d.why = e.Response.ID, e.Type, e.Response.IncompleteDetails.Reason
		if e.Type == failed {
			return d.vendor.Told([]byte(e.Response.Error.RawJSON()), tools)
		}
	case fault:
		return d.vendor.Told([]byte(e.RawJSON()), tools)
	}
	return nil
}

// item adds an item that is whole. Those of tools of OpenAI's own are none of the agent's.
func (d *draft) item(item api.ResponseOutputItemUnion) error {
	if err := d.size.Add(item.RawJSON()); err != nil {
		return err
	}
	switch item.Type {
	case "message":
		d.text.Reset()
		for _, part := range item.Content {
			d.refusal += part.Refusal
			if part.Text != "" {
				d.blocks = append(d.blocks, message.Text(part.Text))
			}
		}
	case "function_call":
		c := item.AsFunctionCall()
		d.blocks = append(d.blocks, message.ToolCall(c.CallID, c.Name, json.RawMessage(c.Arguments)))
	case "reasoning":
		var thought []string
		for _, s := range item.AsReasoning().Summary {
			thought = append(thought, s.Text)
		}
		kept := modelapi.Kept{Item: json.RawMessage(item.RawJSON())}
		d.blocks = append(d.blocks, d.vendor.Reasoning(strings.Join(thought, "\n\n"), kept))
	}
	return nil
}

func (d *draft) message() message.Message {
	m := message.Message{ID: d.id, Role: message.RoleAssistant, Blocks: d.blocks}
	if d.text.Len() > 0 {
		m.Blocks = append(m.Blocks, message.Text(d.text.String()))
	}
	return m
}
