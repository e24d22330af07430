package message

import (
	"encoding/json"
	"slices"
)

// The kinds of blocks.
const (
	KindText       = "text"
	KindReasoning  = "reasoning"
	KindToolCall   = "tool_call"
	KindToolResult = "tool_result"
)

// A Block is a part of a message. The functions below make blocks. Text is for reading, Raw is JSON:
//
//	text         Text
//	reasoning    Text; Raw is the metadata, or nil
//	tool_call    Raw is the JSON of a [Call]
//	tool_result  Text; Raw is the JSON of a [Result]
//	any other    Raw is the whole block as it was read
type Block struct {
	Kind string
	Text string
	Raw  json.RawMessage
}

// Text returns a text block.
func Text(text string) Block { return Block{Kind: KindText, Text: text} }

// Reasoning returns what the model thought. metadata is for the model's vendor, who wants to see it again: a signature,
// say. metadata may be nil. If metadata is not JSON, the block keeps it as a JSON string.
func Reasoning(text string, metadata json.RawMessage) Block {
	return Block{Kind: KindReasoning, Text: text, Raw: valid(metadata)}
}

// ToolCall returns a call that the model asks for. args may be nil. Models do not always write JSON: if args are not
// JSON, the block keeps them as a JSON string.
func ToolCall(id, name string, args json.RawMessage) Block {
	return Block{Kind: KindToolCall, Raw: mustJSON(Call{id, name, valid(args)})}
}

// ToolResult returns the result of the call with the ID callID.
func ToolResult(callID, text string, isError bool) Block {
	return Block{Kind: KindToolResult, Text: text, Raw: mustJSON(Result{callID, isError})}
}

// A Call is the content of a tool_call block: which tool the model asks for. The ID is the model's.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// A Result is the content of a tool_result block, without its text. CallID is the ID of the Call.
type Result struct {
	CallID  string `json:"call_id"`
	IsError bool   `json:"is_error"`
}

// Call returns the content of a tool_call block. For a block of another kind, ok is false.
func (b Block) Call() (c Call, ok bool) {
	if b.Kind != KindToolCall {
		return c, false
	}
	if p, ok := content(b.Raw); ok {
		p.Args = slices.Clone(p.Args)
		return p.Call, true
	}
	return c, json.Unmarshal(b.Raw, &c) == nil
}

// Result returns the content of a tool_result block. For a block of another kind, ok is false.
func (b Block) Result() (r Result, ok bool) {
	if b.Kind != KindToolResult {
		return r, false
	}
	if p, ok := content(b.Raw); ok {
		return p.Result, true
	}
	return r, json.Unmarshal(b.Raw, &r) == nil
}

// valid returns raw as a later decode will return it: if raw is not JSON, as a JSON string.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if doc, err := json.Marshal(raw); err == nil {
		return doc
	}
	return mustJSON(string(raw))
}

// mustJSON encodes values that cannot fail: strings, and raw JSON that was found valid.
func mustJSON(v any) json.RawMessage {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return doc
}
