package openai

import (
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/message"
)

// params returns the request for r.
func (m *Model) params(r agent.Request) (p openai.ChatCompletionNewParams, err error) {
	p = m.o.Params
	p.Model = m.vendor.Model
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	if r.Instructions != "" {
		p.Messages = append(p.Messages, openai.SystemMessage(r.Instructions))
	}
	for _, said := range r.Said {
		p.Messages = append(p.Messages, messages(said)...)
	}
	for _, t := range r.Tools {
		f, err := function(t, r.MustCall && !m.o.Loose)
		if err != nil {
			return p, err
		}
		p.Tools = append(p.Tools, openai.ChatCompletionFunctionTool(f))
	}
	if r.MustCall {
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
	}
	return p, nil
}

// function returns a tool as the API wants it.
func function(t agent.Tool, strict bool) (f shared.FunctionDefinitionParam, err error) {
	s, err := modelapi.Schema(t)
	if err != nil {
		return f, err
	}
	f.Name, f.Parameters = t.Name, make(map[string]any, len(s))
	for name, member := range s {
		f.Parameters[name] = member
	}
	if t.Description != "" {
		f.Description = openai.String(t.Description)
	}
	if strict && modelapi.Strict(t.Parameters) {
		f.Strict = openai.Bool(true)
	}
	return f, nil
}

// messages returns a message as the API wants it: a message for each result.
func messages(said message.Message) (all []openai.ChatCompletionMessageParamUnion) {
	var text strings.Builder
	var calls []openai.ChatCompletionMessageToolCallUnionParam
	for _, b := range said.Blocks {
		if b.Kind == message.KindText {
			text.WriteString(b.Text)
		} else if c, ok := b.Call(); ok {
			f := openai.ChatCompletionMessageFunctionToolCallParam{ID: c.ID}
			f.Function.Name, f.Function.Arguments = c.Name, modelapi.Args(c)
			calls = append(calls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &f})
		} else if r, ok := b.Result(); ok {
			all = append(all, openai.ToolMessage(b.Text, r.CallID))
		}
	}
	switch {
	case said.Role == message.RoleAssistant && (text.Len() > 0 || len(calls) > 0):
		a := &openai.ChatCompletionAssistantMessageParam{ToolCalls: calls}
		if text.Len() > 0 {
			a.Content.OfString = openai.String(text.String())
		}
		all = append(all, openai.ChatCompletionMessageParamUnion{OfAssistant: a})
	case text.Len() == 0:
	case said.Role == message.RoleUser:
		all = append(all, openai.UserMessage(text.String()))
	case said.Role == message.RoleSystem:
		all = append(all, openai.SystemMessage(text.String()))
	}
	return all
}
