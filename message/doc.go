// Package message holds the messages of a session, in the form in which they are stored.
//
// A [Message] is a list of [Block]s. Each block has one kind: text, reasoning, a tool call or a tool result. The JSON
// of a message carries the version of its form, so that a reader knows the form:
//
//	{"v":1, "id":"m7", "role":"assistant", "turn":3, "created_at":"2026-03-01T09:30:00+01:00", "blocks":[
//	  {"kind":"text", "text":"I look it up."},
//	  {"kind":"reasoning", "text":"…", "metadata":{"signature":"…"}},
//	  {"kind":"tool_call", "id":"c1", "name":"order", "args":{"id":"A-1042"}},
//	  {"kind":"tool_result", "call_id":"c1", "content":"shipped", "is_error":false}]}
//
// A decoded message equals the encoded one, with these exceptions. Raw JSON is equal as a value, not as bytes. A time
// keeps its offset, not the name of its zone. An empty list of blocks becomes nil. Text is UTF-8: other bytes become
// U+FFFD, as in encoding/json. Missing members are zero, and unknown members are ignored.
//
// [Last] and [Fit] cut a window out of a history, for a call of the model.
package message
