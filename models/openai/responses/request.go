package responses

import (
	"github.com/openai/openai-go/v3/packages/param"
	api "github.com/openai/openai-go/v3/responses"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/modelapi"
	"github.com/holdfast-go/holdfast/message"
)

// params returns the request for r.
func (m *Model) params(r agent.Request) (p api.ResponseNewParams, err error) {
	p = m.o.Params
	p.Model = m.vendor.Model
	if !p.Store.Valid() {
		p.Store = param.NewOpt(false)
	}
	if !p.Store.Value { // else OpenAI keeps what the model has thought
		p.Include = append(p.Include[:len(p.Include):len(p.Include)], api.ResponseIncludableReasoningEncryptedContent)
	}
	if r.Instructions != "" {
		p.Instructions = param.NewOpt(r.Instructions)
	}
	for _, said := range r.Said {
		p.Input.OfInputItemList = append(p.Input.OfInputItemList, m.items(said)...)
	}
	for _, t := range r.Tools {
		s, err := modelapi.Schema(t)
		if err != nil {
			return p, err
		}
		f := &api.FunctionToolParam{Name: t.Name, Parameters: make(map[string]any, len(s))}
		for name, member := range s {
			f.Parameters[name] = member
		}
		if t.Description != "" {
			f.Description = param.NewOpt(t.Description)
		}
		// Without the word, the API itself would make the schema strict.
		f.Strict = param.NewOpt(r.MustCall && !m.o.Loose && modelapi.Strict(t.Parameters))
		p.Tools = append(p.Tools, api.ToolUnionParam{OfFunction: f})
	}
	if r.MustCall {
		p.ToolChoice.OfToolChoiceMode = param.NewOpt(api.ToolChoiceOptionsRequired)
	}
	return p, nil
}

// items returns a message as the API wants it: an item for each block.
func (m *Model) items(said message.Message) (all api.ResponseInputParam) {
	for _, b := range said.Blocks {
		if c, ok := b.Call(); ok {
			all = append(all, api.ResponseInputItemParamOfFunctionCall(modelapi.Args(c), c.ID, c.Name))
		} else if r, ok := b.Result(); ok {
			item := api.ResponseInputItemParamOfFunctionCallOutput(b.Text)
			item.OfFunctionCallOutput.CallID = param.NewOpt(r.CallID)
			all = append(all, item)
		} else if k, ok := m.vendor.KeptOf(b); ok && k.Item != nil {
			kept := param.Override[api.ResponseReasoningItemParam](k.Item)
			all = append(all, api.ResponseInputItemUnionParam{OfReasoning: &kept})
		} else if b.Kind == message.KindText && b.Text != "" {
			all = append(all, api.ResponseInputItemParamOfMessage(b.Text, api.EasyInputMessageRole(said.Role)))
		}
	}
	return all
}
