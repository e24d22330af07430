package message_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/holdfast-go/holdfast/message"
)

// A document that decodes can be encoded again, and then decodes to an equal value.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"hi <b>\ud800"}]}`,
		`{"v":1,"id":"m7","role":"assistant","turn":3,"created_at":"2026-03-01T09:30:00.5+01:00","blocks":[` +
			`{"kind":"reasoning","text":"hm","metadata":{ "a" : [null, 1e400] }},` +
			`{"kind":"tool_call","id":"c1","name":"order","args":{"id":"A-1042"}},` +
			`{"kind":"tool_call","args":null},` +
			`{"kind":"tool_result","call_id":"c1","content":"no","is_error":true}]}`,
		`{"v":1,"blocks":[{"kind": "image", "url": "&"}, {}]}`,
		`{"v":1,"created_at":"0000-01-01T00:00:00+23:59"}`,
		`{"v":1,"created_at":"0001-01-01T00:00:00Z","V":1,"BLOCKS":null}`,
		`{"v":2}`,
		`null`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		first, ok := decode(t, doc)
		if !ok {
			return
		}
		stored, err := json.Marshal(first)
		if err != nil {
			t.Fatalf("decoded %s, but %v", doc, err)
		}
		second, ok := decode(t, stored)
		if !ok {
			t.Fatalf("%s does not decode", stored)
		}
		if !second.CreatedAt.Equal(first.CreatedAt) {
			t.Errorf("created at %v, then %v", first.CreatedAt, second.CreatedAt)
		}
		if first.CreatedAt.IsZero() { // encoding drops its offset
			second.CreatedAt = first.CreatedAt
		}
		if !reflect.DeepEqual(compact(t, first), compact(t, second)) {
			t.Errorf("%+v\nbecame %+v", first, second)
		}
	})
}

// decode reports whether doc holds a message, of unknown kinds too.
func decode(t *testing.T, doc []byte) (m message.Message, ok bool) {
	t.Helper()
	err := json.Unmarshal(doc, &m)
	if err != nil && !errors.Is(err, message.ErrUnknownKind) {
		if !reflect.DeepEqual(m, message.Message{}) {
			t.Errorf("%v, and yet %+v", err, m)
		}
		return m, false
	}
	for _, b := range m.Blocks {
		_, call := b.Call()
		_, result := b.Result()
		if call != (b.Kind == message.KindToolCall) || result != (b.Kind == message.KindToolResult) {
			t.Errorf("%+v: call %v, result %v", b, call, result)
		}
	}
	return m, true
}

// compact gives equal raw JSON equal bytes.
func compact(t *testing.T, m message.Message) message.Message {
	t.Helper()
	for i, b := range m.Blocks {
		if b.Raw == nil {
			continue
		}
		raw, err := json.Marshal(b.Raw)
		if err != nil {
			t.Fatal(err)
		}
		m.Blocks[i].Raw = raw
	}
	return m
}
