package message_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
		`{"v": 1, "role": "tool", "turn": -3, "blocks": [{"kind": "tool_result", "content": "a\n\u00e9\/\b\f\r\t\\\"", ` +
			`"call_id": "", "is_error": true}]} `,
		`{"v":1,"blocks":[{"kind":"tool_call","args":"no \"JSON"},{"kind":"reasoning","metadata":[1,{"a":"]\""}]}]}`,
		`{"v":1,"blocks":[{"kind":"text","args":[1,{"a":]}]}]}`,
		`{"v":1,"turn":01}`, `{"v":1,"turn":-0}`, `{"v":1,"turn":1e1}`, `{"v":1,"v":1}`, `{"v":1,"role":"a","role":null}`,
		`{"v":1,"\u0069d":"m"}`, `{"v":1,"id":"\ud83d\ude00"}`, `{"v":1,"id":"\x"}`, "{\"v\":1,\"id\":\"\n\"}", `{"v":1} 1`,
		"{\"v\":1,\"id\":\"\xff\"}", `{"v":1,"blocks":[{"kind":"tool_result","is_error":tru}]}`, `{"v":1,"created_at":""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		readersAgree(t, doc)
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

// readersAgree fails the test if the reader of the usual form does not read what encoding/json does.
func readersAgree(t *testing.T, doc []byte) {
	t.Helper()
	var got, want message.Message
	err, wantErr := got.UnmarshalJSON(doc), want.ReadAny(doc)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nis   %+v, %v\nwant %+v, %v", doc, got, err, want, wantErr)
	}
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
		c, call := b.Call()
		_, result := b.Result()
		var want message.Call
		if call && (json.Unmarshal(b.Raw, &want) != nil || !reflect.DeepEqual(c, want)) {
			t.Errorf("%s is %+v", b.Raw, c)
		}
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
