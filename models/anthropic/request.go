package anthropic

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/message"
)

// mostStrict is how many strict tools the API takes.
const mostStrict = 20

// params returns the request for r.
func (m *Model) params(r agent.Request) (p anthropic.MessageNewParams, err error) {
	p = m.o.Params
	p.Model = m.vendor.Model
	if r.Instructions != "" {
		p.System = append(p.System, anthropic.TextBlockParam{Text: r.Instructions})
	}
	strict := 0
	for _, t := range slices.Backward(r.Tools) { // the Finish is the last one
		f, err := tool(t)
		if err != nil {
			return p, err
		}
		if r.MustCall && !m.o.Loose && strict < mostStrict && modelapi.Strict(t.Parameters) {
			f.Strict = anthropic.Bool(true)
			strict++
		}
		p.Tools = append(p.Tools, anthropic.ToolUnionParam{OfTool: f})
	}
	slices.Reverse(p.Tools)
	if r.MustCall && !m.thinks() { // the API refuses to force a call on a model that thinks
		p.ToolChoice = anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	}
	m.said(&p, r.Said)
	if !m.o.NoCache {
		m.cache(&p)
	}
	return p, nil
}

func (m *Model) thinks() bool {
	t := m.o.Params.Thinking
	return t.OfEnabled != nil || t.OfAdaptive != nil || t.OfBetweenTools != nil
}

// tool returns a tool as the API wants it.
func tool(t agent.Tool) (*anthropic.ToolParam, error) {
	s, err := modelapi.Schema(t)
	if err != nil {
		return nil, err
	}
	f := &anthropic.ToolParam{Name: t.Name}
	if t.Description != "" {
		f.Description = anthropic.String(t.Description)
	}
	f.InputSchema.Properties = s["properties"]
	f.InputSchema.ExtraFields = make(map[string]any)
	for name, member := range s {
		if name != "type" && name != "properties" {
			f.InputSchema.ExtraFields[name] = member
		}
	}
	return f, nil
}

// A part is what one side says in a row.
type part struct {
	assistant bool
	blocks    []anthropic.ContentBlockParamUnion
}

// said adds what was said. What one side has said in a row is one message, and results come before words. Instructions
// in the middle are added to those at the top.
func (m *Model) said(p *anthropic.MessageNewParams, said []message.Message) {
	var all []part
	for _, next := range said {
		if next.Role == message.RoleSystem {
			for _, b := range next.Blocks {
				p.System = append(p.System, anthropic.TextBlockParam{Text: b.Text})
			}
			continue
		}
		assistant, blocks := next.Role == message.RoleAssistant, m.blocks(next)
		if n := len(all); n > 0 && all[n-1].assistant == assistant {
			all[n-1].blocks = append(all[n-1].blocks, blocks...)
		} else if len(blocks) > 0 {
			if n == 0 && assistant { // the API wants the user to be first
				all = append(all, part{blocks: []anthropic.ContentBlockParamUnion{anthropic.NewTextBlock("Go on.")}})
			}
			all = append(all, part{assistant, blocks})
		}
	}
	for _, part := range all {
		if part.assistant {
			p.Messages = append(p.Messages, anthropic.NewAssistantMessage(part.blocks...))
			continue
		}
		slices.SortStableFunc(part.blocks, func(a, b anthropic.ContentBlockParamUnion) int {
			return cmp.Compare(later(a), later(b))
		})
		p.Messages = append(p.Messages, anthropic.NewUserMessage(part.blocks...))
	}
}

func later(b anthropic.ContentBlockParamUnion) int {
	if b.OfToolResult != nil {
		return 0
	}
	return 1
}

// blocks returns the blocks of a message as the API wants them. Only the model that has thought something sees it
// again.
func (m *Model) blocks(said message.Message) (all []anthropic.ContentBlockParamUnion) {
	for _, b := range said.Blocks {
		if c, ok := b.Call(); ok {
			all = append(all, anthropic.NewToolUseBlock(c.ID, json.RawMessage(modelapi.Args(c)), c.Name))
		} else if r, ok := b.Result(); ok {
			result := &anthropic.ToolResultBlockParam{ToolUseID: r.CallID}
			if r.IsError {
				result.IsError = anthropic.Bool(true)
			}
			if b.Text != "" { // the API refuses an empty text
				text := &anthropic.TextBlockParam{Text: b.Text}
				result.Content = []anthropic.ToolResultBlockParamContentUnion{{OfText: text}}
			}
			all = append(all, anthropic.ContentBlockParamUnion{OfToolResult: result})
		} else if k, ok := m.vendor.KeptOf(b); ok && k.Redacted != "" {
			all = append(all, anthropic.NewRedactedThinkingBlock(k.Redacted))
		} else if ok && k.Signature != "" {
			all = append(all, anthropic.NewThinkingBlock(k.Signature, b.Text))
		} else if b.Kind == message.KindText && b.Text != "" {
			all = append(all, anthropic.NewTextBlock(b.Text))
		}
	}
	return all
}

// cache marks what is to be cached: the tools with the instructions, which all sessions share, and the ends of the
// newest two messages of the user. The one before the newest is found again if the newest has many blocks.
func (m *Model) cache(p *anthropic.MessageNewParams) {
	mark := anthropic.NewCacheControlEphemeralParam()
	if m.o.CacheHour {
		mark.TTL = anthropic.CacheControlEphemeralTTLTTL1h
	}
	if n := len(p.System); n > 0 {
		p.System[n-1].CacheControl = mark
	} else if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfTool.CacheControl = mark
	}
	marked := 0
	for _, said := range slices.Backward(p.Messages) {
		if said.OfUser == nil {
			continue
		}
		blocks := said.OfUser.Content
		if c := blocks[len(blocks)-1].GetCacheControl(); c != nil {
			*c = mark
		}
		if marked++; marked == 2 {
			return
		}
	}
}
