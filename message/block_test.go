package message_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/message"
)

func TestViews(t *testing.T) {
	for _, c := range []struct {
		name   string
		block  message.Block
		call   *message.Call
		result *message.Result
	}{
		{"text", message.Text("hi"), nil, nil},
		{"reasoning", message.Reasoning("hm", json.RawMessage(`{"id":"c1","call_id":"c1"}`)), nil, nil},
		{
			"call", message.ToolCall("c1", "order", json.RawMessage(`{"id":7}`)),
			&message.Call{ID: "c1", Name: "order", Args: json.RawMessage(`{"id":7}`)}, nil,
		},
		{"call without arguments", message.ToolCall("c1", "now", nil), &message.Call{ID: "c1", Name: "now"}, nil},
		{"result", message.ToolResult("c1", "late", true), nil, &message.Result{CallID: "c1", IsError: true}},
		{"broken call", message.Block{Kind: message.KindToolCall, Raw: json.RawMessage(`{`)}, nil, nil},
		{"broken result", message.Block{Kind: message.KindToolResult}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			call, ok := c.block.Call()
			if ok != (c.call != nil) || ok && !reflect.DeepEqual(call, *c.call) {
				t.Errorf("call %+v, %v", call, ok)
			}
			result, ok := c.block.Result()
			if ok != (c.result != nil) || ok && result != *c.result {
				t.Errorf("result %+v, %v", result, ok)
			}
		})
	}
}

// The caller may go on using the array of the arguments.
func TestBlocksOwnTheirBytes(t *testing.T) {
	raw := json.RawMessage(`{"id":7}`)
	blocks := []message.Block{message.Reasoning("", raw), message.ToolCall("", "", raw)}
	clear(raw)
	for _, b := range blocks {
		if !json.Valid(b.Raw) {
			t.Errorf("%s became %q", b.Kind, b.Raw)
		}
	}
}

func TestRoles(t *testing.T) {
	for role, m := range map[string]message.Message{
		"user": message.User("hi"), "assistant": message.Assistant("hi"), "system": message.System("hi"),
	} {
		want := message.Message{Role: role, Blocks: []message.Block{{Kind: "text", Text: "hi"}}}
		if !reflect.DeepEqual(m, want) {
			t.Errorf("got %+v, want %+v", m, want)
		}
	}
}
