package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

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
	stream := m.messages.NewStreaming(ctx, p)
	defer func() { _ = stream.Close() }()
	d := draft{vendor: m.vendor, token: token}
	for err == nil && !d.whole && stream.Next() {
		err = d.add(stream.Current())
	}
	reply := agent.Reply{Usage: m.o.Prices.Usage(m.vendor.Model, d.tokens())}
	reply.Usage.Provider = m.vendor.Name
	if err == nil && !d.whole {
		err = stream.Err()
	}
	told, said := errors.AsType[*anthropic.Error](err)
	switch {
	case said:
		return reply, m.vendor.Told([]byte(told.RawJSON()), r.Tools)
	case err != nil:
		return reply, m.vendor.Failed(err, r.Tools)
	case !d.whole:
		return reply, m.vendor.CutOff()
	case d.end == anthropic.StopReasonRefusal:
		return reply, m.vendor.Declined(d.why)
	}
	reply.Message = d.message()
	reply.Cut = d.end == anthropic.StopReasonMaxTokens || d.end == anthropic.StopReasonModelContextWindowExceeded
	return reply, nil
}

// A draft is what has come of a reply.
type draft struct {
	vendor modelapi.Vendor
	token  func(string)
	blocks []*block
	id     string
	end    anthropic.StopReason
	why    string // of a refusal
	whole  bool   // the last event has come
	used   anthropic.Usage
	size   modelapi.Size
}

// A block is one that comes in pieces.
type block struct {
	kind, id, name, signature, redacted string
	text, args                          strings.Builder
}

// add adds an event. Unknown events and blocks are left out.
func (d *draft) add(e anthropic.MessageStreamEventUnion) error {
	switch e.Type {
	case "message_start":
		d.id, d.used = e.Message.ID, e.Message.Usage
	case "message_delta":
		if e.Delta.StopReason != "" {
			d.end, d.why = e.Delta.StopReason, e.Delta.StopDetails.Explanation
		}
		d.counted(e.Usage)
	case "message_stop":
		d.whole = true
	case "content_block_start":
		if e.Index != int64(len(d.blocks)) {
			return fmt.Errorf("block %d comes after %d blocks", e.Index, len(d.blocks))
		}
		from := e.ContentBlock
		b := &block{kind: from.Type, id: from.ID, name: from.Name, signature: from.Signature, redacted: from.Data}
		d.blocks = append(d.blocks, b)
		b.text.WriteString(from.Text + from.Thinking)
		return d.size.Add(from.Text, from.Thinking, from.ID, from.Name, from.Signature, from.Data)
	case "content_block_delta":
		if e.Index < 0 || e.Index >= int64(len(d.blocks)) {
			return fmt.Errorf("a piece of block %d comes before its beginning", e.Index)
		}
		return d.piece(d.blocks[e.Index], e.Delta)
	}
	return nil
}

func (d *draft) piece(b *block, p anthropic.MessageStreamEventUnionDelta) error {
	switch p.Type {
	case "text_delta":
		b.text.WriteString(p.Text)
		d.token(p.Text)
	case "thinking_delta":
		b.text.WriteString(p.Thinking)
	case "signature_delta":
		b.signature += p.Signature
	case "input_json_delta":
		b.args.WriteString(p.PartialJSON)
	}
	return d.size.Add(p.Text, p.Thinking, p.Signature, p.PartialJSON)
}

// counted takes what was used. Each count is that of the whole message; those that do not come stay as they were.
func (d *draft) counted(u anthropic.MessageDeltaUsage) {
	d.used.OutputTokens = max(d.used.OutputTokens, u.OutputTokens)
	d.used.InputTokens = max(d.used.InputTokens, u.InputTokens)
	d.used.CacheReadInputTokens = max(d.used.CacheReadInputTokens, u.CacheReadInputTokens)
	d.used.CacheCreationInputTokens = max(d.used.CacheCreationInputTokens, u.CacheCreationInputTokens)
}

// tokens returns what was used. The API counts what was cached apart.
func (d *draft) tokens() models.Tokens {
	read, written := int(d.used.CacheReadInputTokens), int(d.used.CacheCreationInputTokens)
	return models.Tokens{
		Input: int(d.used.InputTokens) + read + written, Output: int(d.used.OutputTokens),
		Cached: read, Written: written,
	}
}

func (d *draft) message() message.Message {
	m := message.Message{ID: d.id, Role: message.RoleAssistant}
	for _, b := range d.blocks {
		switch b.kind {
		case "text":
			m.Blocks = append(m.Blocks, message.Text(b.text.String()))
		case "thinking":
			m.Blocks = append(m.Blocks, d.vendor.Reasoning(b.text.String(), modelapi.Kept{Signature: b.signature}))
		case "redacted_thinking":
			m.Blocks = append(m.Blocks, d.vendor.Reasoning("", modelapi.Kept{Redacted: b.redacted}))
		case "tool_use":
			m.Blocks = append(m.Blocks, message.ToolCall(b.id, b.name, json.RawMessage(b.args.String())))
		}
	}
	return m
}
