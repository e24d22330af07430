// Package message holds what was said in a session, in the form in which it is stored.
//
// A [Message] is a list of [Block]s, each of one kind: text, reasoning, a tool call, a tool result. Its JSON carries the
// version of its form, so that a process knows what it reads:
//
//	{"v":1, "id":"m7", "role":"assistant", "turn":3, "created_at":"2026-03-01T09:30:00+01:00", "blocks":[
//	  {"kind":"text", "text":"I look it up."},
//	  {"kind":"reasoning", "text":"…", "metadata":{"signature":"…"}},
//	  {"kind":"tool_call", "id":"c1", "name":"order", "args":{"id":"A-1042"}},
//	  {"kind":"tool_result", "call_id":"c1", "content":"shipped", "is_error":false}]}
//
// A message comes back equal: raw JSON as a value, not as bytes; a time with its offset, not with the name of its zone;
// and no blocks are nil blocks. Text is UTF-8; other bytes become U+FFFD, as they do in encoding/json. Members that are
// missing are zero, and members that are not known are ignored.
//
// [Last] and [Fit] are windows over a history, for the place where the model is called.
package message
