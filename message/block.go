package message

import "encoding/json"

// The kinds of blocks.
const (
	KindText       = "text"
	KindReasoning  = "reasoning"
	KindToolCall   = "tool_call"
	KindToolResult = "tool_result"
)

// A Block is a part of a message, made by one of the functions below. Text is what is there to read, Raw is JSON:
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

// Reasoning returns what the model thought, and what its vendor wants to see again with it: a signature, say. metadata
// may be nil; if it is not JSON it is kept as a JSON string.
func Reasoning(text string, metadata json.RawMessage) Block {
	return Block{Kind: KindReasoning, Text: text, Raw: valid(metadata)}
}

// ToolCall returns a call that the model asks for. args may be nil. Models do not always write JSON: if args are none,
// they are kept as a JSON string.
func ToolCall(id, name string, args json.RawMessage) Block {
	return Block{Kind: KindToolCall, Raw: mustJSON(Call{id, name, valid(args)})}
}

// ToolResult returns what came of the call with that id.
func ToolResult(callID, text string, isError bool) Block {
	return Block{Kind: KindToolResult, Text: text, Raw: mustJSON(Result{callID, isError})}
}

// A Call is what a tool_call block says.
type Call struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// A Result is what a tool_result block says beside its text.
type Result struct {
	CallID  string `json:"call_id"`
	IsError bool   `json:"is_error"`
}

// Call returns what a tool_call block says. ok is false for any other.
func (b Block) Call() (c Call, ok bool) {
	return c, b.Kind == KindToolCall && json.Unmarshal(b.Raw, &c) == nil
}

// Result returns what a tool_result block says. ok is false for any other.
func (b Block) Result() (r Result, ok bool) {
	return r, b.Kind == KindToolResult && json.Unmarshal(b.Raw, &r) == nil
}

// valid returns raw in the form in which it will come back, as a string if it is not JSON.
func valid(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if doc, err := json.Marshal(raw); err == nil {
		return doc
	}
	return mustJSON(string(raw))
}

// mustJSON is for what cannot fail: strings, and raw JSON that was found valid.
func mustJSON(v any) json.RawMessage {
	doc, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return doc
}
