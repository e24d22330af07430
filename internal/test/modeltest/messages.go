package modeltest

import (
	"encoding/json"
	"strings"

	"github.com/holdfast-go/holdfast/message"
)

// Messages is the format of Anthropic's messages.
var Messages = Wire{
	Path: "/v1/messages", Key: "ANTHROPIC_API_KEY", Parse: parseMessages, Frames: messagesFrames, Fault: anthropicFault,
	Broken: func(code, text string) string { return "event: error\ndata: " + anthropicFault(code, text) + "\n\n" },
	Strays: []string{
		"event: ping\ndata: {\"type\":\"ping\"}\n\n",
		frame("new_event", object{"type": "new_event", "index": 7, "delta": object{"type": "new_delta"}}),
	},
	Thinks: true, Marks: true, Fails: true,
}

func anthropicFault(code, text string) string {
	doc, _ := json.Marshal(object{"type": "error", "error": object{"type": code, "message": text}})
	return string(doc)
}

func parseMessages(doc []byte) (a Asked, err error) {
	var body struct {
		Model    string
		System   []struct{ Text string }
		Messages []struct {
			Role    string
			Content []json.RawMessage
		}
		Tools []struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
			Strict            *bool
		}
		Choice struct{ Type string } `json:"tool_choice"`
	}
	err = json.Unmarshal(doc, &body)
	a.Model, a.MustCall = body.Model, body.Choice.Type == "any"
	a.Marks = strings.Count(string(doc), `"cache_control":`)
	for _, s := range body.System {
		a.Instructions += s.Text
	}
	for _, t := range body.Tools {
		a.tool(function{t.Name, t.Description, t.Schema, t.Strict})
	}
	for _, m := range body.Messages {
		for _, raw := range m.Content {
			var b struct {
				Type, Text, ID, Name string
				Input                json.RawMessage
				ToolUseID            string `json:"tool_use_id"`
				IsError              bool   `json:"is_error"`
				Content              []struct{ Text string }
			}
			if err := json.Unmarshal(raw, &b); err != nil {
				return a, err
			}
			switch b.Type {
			case "tool_use":
				a.Said = add(a.Said, m.Role, message.ToolCall(b.ID, b.Name, b.Input))
			case "tool_result":
				text := ""
				for _, part := range b.Content {
					text += part.Text
				}
				a.Said = add(a.Said, "tool", message.ToolResult(b.ToolUseID, text, b.IsError))
			case "text":
				a.Said = add(a.Said, m.Role, message.Text(b.Text))
			default:
				a.Said = add(a.Said, m.Role, message.Reasoning("", raw))
			}
		}
	}
	return a, err
}

func messagesFrames(s Said) (all []string) {
	event := func(kind string, data object) {
		data["type"] = kind
		all = append(all, frame(kind, data))
	}
	event("message_start", object{"message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "model": "m-1", "usage": object{
			"input_tokens": s.Usage.Input - s.Cached - s.Written, "output_tokens": 1,
			"cache_read_input_tokens": s.Cached, "cache_creation_input_tokens": s.Written,
		},
	}})
	n, end := 0, "end_turn"
	block := func(start object, kind, member string, texts ...string) {
		event("content_block_start", object{"index": n, "content_block": start})
		for _, text := range texts {
			event("content_block_delta", object{"index": n, "delta": object{"type": kind, member: text}})
		}
	}
	for _, b := range s.Message.Blocks {
		if c, ok := b.Call(); ok {
			end = "tool_use"
			start := object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}
			block(start, "input_json_delta", "partial_json", pieces(argsOf(c))...)
		} else if b.Kind == message.KindReasoning && b.Text == "" {
			block(object{"type": "redacted_thinking", "data": string(b.Raw)}, "", "")
		} else if b.Kind == message.KindReasoning {
			start := object{"type": "thinking", "thinking": "", "signature": ""}
			block(start, "thinking_delta", "thinking", pieces(b.Text)...)
			signed := object{"type": "signature_delta", "signature": string(b.Raw)}
			event("content_block_delta", object{"index": n, "delta": signed})
		} else {
			block(object{"type": "text", "text": ""}, "text_delta", "text", pieces(b.Text)...)
		}
		event("content_block_stop", object{"index": n})
		n++
	}
	delta := object{"stop_reason": end, "stop_sequence": nil, "stop_details": nil}
	if s.Cut {
		delta["stop_reason"] = "max_tokens"
	}
	if s.Refusal != "" {
		delta["stop_reason"] = "refusal"
		delta["stop_details"] = object{"type": "refusal", "category": "cyber", "explanation": s.Refusal}
	}
	event("message_delta", object{"delta": delta, "usage": object{"output_tokens": s.Usage.Output}})
	event("message_stop", object{})
	return all
}
