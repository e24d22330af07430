package modeltest

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/message"
)

// Responses is the format of the responses API.
var Responses = Wire{
	Path: "/responses", Key: "OPENAI_API_KEY", Most: 128,
	Parse: parseResponses, Frames: responsesFrames, Fault: openaiFault,
	Broken: func(code, text string) string {
		return frame("error", object{"type": "error", "code": code, "message": text, "param": nil})
	},
	Strays: []string{
		frame("response.new.event", object{"type": "response.new.event", "item": object{"type": "new"}}),
		frame("response.output_item.done", object{
			"type": "response.output_item.done", "output_index": 9, "item": object{"type": "hologram", "id": "h"},
		}),
	},
	Thinks: true,
}

func parseResponses(doc []byte) (a Asked, err error) {
	var body struct {
		Model, Instructions string
		Input               []json.RawMessage
		Tools               []function
		Choice              any `json:"tool_choice"`
	}
	err = json.Unmarshal(doc, &body)
	a.Model, a.Instructions, a.MustCall = body.Model, body.Instructions, body.Choice == "required"
	for _, f := range body.Tools {
		a.tool(f)
	}
	for _, raw := range body.Input {
		var item struct {
			Type, Role, Content, Name, Arguments, Output string
			CallID                                       string `json:"call_id"`
		}
		_ = json.Unmarshal(raw, &item)
		switch item.Type {
		case "function_call":
			call := message.ToolCall(item.CallID, item.Name, json.RawMessage(item.Arguments))
			a.Said = add(a.Said, message.RoleAssistant, call)
		case "function_call_output":
			a.Said = add(a.Said, "tool", message.ToolResult(item.CallID, item.Output, false))
		case "reasoning":
			a.Said = add(a.Said, message.RoleAssistant, message.Reasoning("", raw))
		default:
			a.Said = add(a.Said, item.Role, message.Text(item.Content))
		}
	}
	return a, err
}

func responsesFrames(s Said) (all []string) {
	n := 0
	event := func(kind string, data object) {
		data["type"], data["sequence_number"] = kind, n
		n++
		all = append(all, frame(kind, data))
	}
	event("response.created", object{"response": object{"id": "resp_1", "status": "in_progress"}})
	status := "completed"
	if s.Cut {
		status = "incomplete"
	}
	for i, b := range s.Message.Blocks {
		var item object
		if c, ok := b.Call(); ok {
			item = object{
				"type": "function_call", "id": "fc_1", "call_id": c.ID, "name": c.Name, "arguments": argsOf(c),
			}
			for _, piece := range pieces(argsOf(c)) {
				event("response.function_call_arguments.delta", object{"output_index": i, "delta": piece})
			}
		} else if b.Kind == message.KindReasoning {
			item = object{
				"type": "reasoning", "id": "rs_1", "encrypted_content": string(b.Raw),
				"summary": []any{object{"type": "summary_text", "text": b.Text}},
			}
		} else {
			for _, piece := range pieces(b.Text) {
				event("response.output_text.delta", object{"output_index": i, "delta": piece})
			}
			if s.Cut {
				continue
			}
			part := object{"type": "output_text", "text": b.Text, "annotations": []any{}}
			item = object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{part}}
		}
		item["status"] = status
		event("response.output_item.done", object{"output_index": i, "item": item})
	}
	if s.Refusal != "" {
		part := object{"type": "refusal", "refusal": s.Refusal}
		item := object{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{part}}
		event("response.output_item.done", object{"output_index": 0, "item": item})
	}
	response := object{
		"id": "resp_1", "object": "response", "status": status, "error": nil, "usage": object{
			"input_tokens": s.Usage.Input, "output_tokens": s.Usage.Output,
			"input_tokens_details": object{"cached_tokens": s.Cached, "cache_write_tokens": s.Written},
		},
	}
	if s.Cut {
		response["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	event("response."+status, object{"response": response})
	return all
}
