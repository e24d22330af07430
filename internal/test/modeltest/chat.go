package modeltest

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
)

// Chat is the format of chat completions.
var Chat = Wire{
	Path: "/chat/completions", Key: "OPENAI_API_KEY", Most: 128,
	Parse: parseChat, Frames: chatFrames, Fault: openaiFault,
	Broken: func(code, text string) string { return "data: " + openaiFault(code, text) + "\n\n" },
	Strays: []string{": keep alive\n\n", "data: {\"id\":\"c\",\"object\":\"other\",\"new\":[1],\"choices\":[]}\n\n"},
}

func openaiFault(code, text string) string {
	doc, _ := json.Marshal(object{"error": object{"message": text, "type": "x_error", "param": nil, "code": code}})
	return string(doc)
}

type function struct {
	Name        string
	Description string
	Parameters  json.RawMessage
	Strict      *bool
}

func (a *Asked) tool(f function) {
	a.Tools = append(a.Tools, agent.Tool{Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	if f.Strict != nil && *f.Strict {
		a.Strict = append(a.Strict, f.Name)
	}
}

func parseChat(doc []byte) (a Asked, err error) {
	var body struct {
		Model    string
		Messages []struct {
			Role, Content string
			ToolCallID    string `json:"tool_call_id"`
			ToolCalls     []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools  []struct{ Function function }
		Choice any `json:"tool_choice"`
	}
	err = json.Unmarshal(doc, &body)
	a.Model, a.MustCall = body.Model, body.Choice == "required"
	for _, m := range body.Messages {
		switch m.Role {
		case "system":
			a.Instructions += m.Content
			continue
		case "tool":
			a.Said = add(a.Said, m.Role, message.ToolResult(m.ToolCallID, m.Content, false))
			continue
		}
		if m.Content != "" {
			a.Said = add(a.Said, m.Role, message.Text(m.Content))
		}
		for _, c := range m.ToolCalls {
			call := message.ToolCall(c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments))
			a.Said = add(a.Said, m.Role, call)
		}
	}
	for _, t := range body.Tools {
		a.tool(t.Function)
	}
	return a, err
}

func chatFrames(s Said) (all []string) {
	chunk := func(delta object, end any) {
		choice := object{"index": 0, "delta": delta, "finish_reason": end}
		all = append(all, frame("", object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
			"choices": []any{choice},
		}))
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	n, end := 0, "stop"
	for _, b := range s.Message.Blocks {
		if b.Kind == message.KindText {
			for _, piece := range pieces(b.Text) {
				chunk(object{"content": piece}, nil)
			}
		}
		if c, ok := b.Call(); ok {
			call := func(c object) { chunk(object{"tool_calls": []any{c}}, nil) }
			call(object{
				"index": n, "id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""},
			})
			for _, piece := range pieces(argsOf(c)) {
				call(object{"index": n, "function": object{"arguments": piece}})
			}
			n++
			end = "tool_calls"
		}
	}
	if s.Refusal != "" {
		chunk(object{"refusal": s.Refusal}, nil)
	}
	if s.Cut {
		end = "length"
	}
	chunk(object{}, end)
	all = append(all, frame("", object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": []any{}, "usage": object{
			"prompt_tokens": s.Usage.Input, "completion_tokens": s.Usage.Output,
			"prompt_tokens_details": object{"cached_tokens": s.Cached, "cache_write_tokens": s.Written},
		},
	}))
	return append(all, "data: [DONE]\n\n")
}

// argsOf returns arguments as a model writes them. A JSON string stands for what is no JSON.
func argsOf(c message.Call) string {
	var text string
	if json.Unmarshal(c.Args, &text) == nil {
		return text
	}
	return string(c.Args)
}
