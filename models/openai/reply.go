package openai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

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
	stream := m.chat.NewStreaming(ctx, p)
	defer func() { _ = stream.Close() }()
	d := draft{token: token}
	for err == nil && stream.Next() {
		err = d.add(stream.Current())
	}
	reply := agent.Reply{Usage: m.o.Prices.Usage(m.vendor.Model, d.used)}
	reply.Usage.Provider = m.vendor.Name
	if err == nil {
		err = stream.Err()
	}
	told, said := errors.AsType[*ssestream.StreamError](err)
	switch {
	case said:
		return reply, m.vendor.Told(told.Event.Data, r.Tools)
	case err != nil:
		return reply, m.vendor.Failed(err, r.Tools)
	case d.refusal.Len() > 0 || d.end == "content_filter":
		return reply, m.vendor.Declined(d.refusal.String())
	case d.end == "":
		return reply, m.vendor.CutOff()
	}
	reply.Message, reply.Cut = d.message(), d.end == "length"
	return reply, nil
}

// A draft is what has come of a reply.
type draft struct {
	token         func(string)
	text, refusal strings.Builder
	calls         []*call
	id, end       string
	used          models.Tokens
	size          modelapi.Size
}

// A call is one that comes in pieces.
type call struct {
	index    int64
	id, name string
	args     strings.Builder
}

// add adds what is in a chunk. Choices other than the first one were not asked for.
func (d *draft) add(chunk openai.ChatCompletionChunk) error {
	if d.id == "" {
		d.id = chunk.ID
	}
	if u := chunk.Usage; u.PromptTokens > 0 || u.CompletionTokens > 0 {
		in := u.PromptTokensDetails
		d.used = models.Tokens{
			Input: int(u.PromptTokens), Output: int(u.CompletionTokens),
			Cached: int(in.CachedTokens), Written: int(in.CacheWriteTokens),
		}
	}
	for _, c := range chunk.Choices {
		if c.Index != 0 {
			continue
		}
		if c.FinishReason != "" {
			d.end = c.FinishReason
		}
		if err := d.size.Add(c.Delta.Content, c.Delta.Refusal); err != nil {
			return err
		}
		d.refusal.WriteString(c.Delta.Refusal)
		if text := c.Delta.Content; text != "" {
			d.text.WriteString(text)
			d.token(text)
		}
		for _, piece := range c.Delta.ToolCalls {
			if err := d.size.Add(piece.ID, piece.Function.Name, piece.Function.Arguments); err != nil {
				return err
			}
			c := d.call(piece.Index, piece.ID)
			c.name += piece.Function.Name
			c.args.WriteString(piece.Function.Arguments)
		}
	}
	return nil
}

// call returns the call that a piece belongs to: the newest one of that index. Some servers number no calls: there
// another id begins another call.
func (d *draft) call(index int64, id string) *call {
	for i := len(d.calls) - 1; i >= 0; i-- {
		if c := d.calls[i]; c.index == index {
			if id == "" || c.id == id {
				return c
			}
			break
		}
	}
	c := &call{index: index, id: id}
	d.calls = append(d.calls, c)
	return c
}

func (d *draft) message() message.Message {
	m := message.Message{ID: d.id, Role: message.RoleAssistant}
	if d.text.Len() > 0 {
		m.Blocks = append(m.Blocks, message.Text(d.text.String()))
	}
	for _, c := range d.calls {
		m.Blocks = append(m.Blocks, message.ToolCall(c.id, c.name, json.RawMessage(c.args.String())))
	}
	return m
}
