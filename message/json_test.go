package message_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/message"
)

func TestKindsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name   string
		block  message.Block
		stored string
	}{
		{"text", message.Text("hi"), `{"kind":"text","text":"hi"}`},
		{"empty text", message.Text(""), `{"kind":"text","text":""}`},
		{"markup", message.Text("<b>&\u2028"), `{"kind":"text","text":"\u003cb\u003e\u0026\u2028"}`},
		{"reasoning", message.Reasoning("hm", nil), `{"kind":"reasoning","text":"hm"}`},
		{
			"reasoning with metadata", message.Reasoning("hm", json.RawMessage(`{ "sig": "<x>" }`)),
			`{"kind":"reasoning","text":"hm","metadata":{"sig":"\u003cx\u003e"}}`,
		},
		{"call without arguments", message.ToolCall("c1", "now", nil), `{"kind":"tool_call","id":"c1","name":"now"}`},
		{
			"call", message.ToolCall("c1", "order", json.RawMessage(`{"id": 12345678901234567890, "q": "<"}`)),
			`{"kind":"tool_call","id":"c1","name":"order","args":{"id":12345678901234567890,"q":"\u003c"}}`,
		},
		{
			"call with broken arguments", message.ToolCall("c1", "order", json.RawMessage(`1,"id":"c2"`)),
			`{"kind":"tool_call","id":"c1","name":"order","args":"1,\"id\":\"c2\""}`,
		},
		{
			"result", message.ToolResult("c1", "shipped", false),
			`{"kind":"tool_result","call_id":"c1","is_error":false,"content":"shipped"}`,
		},
		{
			"error", message.ToolResult("c1", "", true),
			`{"kind":"tool_result","call_id":"c1","is_error":true,"content":""}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := json.Marshal(c.block)
			if err != nil {
				t.Fatal(err)
			}
			if string(doc) != c.stored {
				t.Errorf("stored  %s\nwanted  %s", doc, c.stored)
			}
			var got message.Block
			if err := json.Unmarshal(doc, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.block) {
				t.Errorf("got %+v, want %+v", got, c.block)
			}
		})
	}
}

func TestIsErrorDefaultsToFalse(t *testing.T) {
	var b message.Block
	if err := json.Unmarshal([]byte(`{"kind":"tool_result","call_id":"c1","content":"ok"}`), &b); err != nil {
		t.Fatal(err)
	}
	if want := message.ToolResult("c1", "ok", false); !reflect.DeepEqual(b, want) {
		t.Errorf("got %+v, want %+v", b, want)
	}
}

func TestMessageRoundTrips(t *testing.T) {
	summer := time.FixedZone("", 2*60*60)
	for _, c := range []struct {
		name string
		m    message.Message
	}{
		{"zero", message.Message{}},
		{"user", message.User("hi")},
		{"other role", message.Message{Role: "critic", Turn: 7}},
		{"UTC", message.Message{CreatedAt: time.Date(2026, 3, 1, 9, 30, 0, 123456789, time.UTC)}},
		{"offset", message.Message{CreatedAt: time.Date(2026, 7, 1, 9, 30, 0, 1, summer)}},
		{"half an hour west", message.Message{
			CreatedAt: time.Date(2026, 7, 1, 9, 30, 0, 0, time.FixedZone("", -9*60*60-30*60)),
		}},
		{"all", message.Message{
			ID: "m7", Role: message.RoleAssistant, Turn: 3, CreatedAt: time.Date(2026, 7, 1, 9, 30, 0, 0, summer),
			Blocks: []message.Block{
				message.Reasoning("hm", json.RawMessage(`{"sig":"x"}`)),
				message.Text("I look it up."),
				message.ToolCall("c1", "order", json.RawMessage(`{"id":"A-1042"}`)),
				message.ToolResult("c1", "shipped", false),
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := again(t, c.m); !reflect.DeepEqual(got, c.m) {
				t.Errorf("got %+v, want %+v", got, c.m)
			}
		})
	}
}

// What MarshalJSON writes, and what PostgreSQL makes of it in a column of jsonb, is read in one pass.
func TestUsualForm(t *testing.T) {
	for _, m := range talk() {
		doc, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if readersAgree(t, doc); !message.IsUsual(doc) {
			t.Errorf("%s is odd", doc)
		}
	}
	const jsonb = `{"v": 1, "role": "tool", "turn": 7, "blocks": [{"kind": "tool_result", "call_id": "c", "content": ` +
		`"a \"b\" é\n", "is_error": false}, {"kind": "reasoning", "text": "", "metadata": {"a": [1, null]}}], ` +
		`"created_at": "2026-03-01T09:30:00.5Z"}`
	if readersAgree(t, []byte(jsonb)); !message.IsUsual([]byte(jsonb)) {
		t.Errorf("%s is odd", jsonb)
	}
}

// A message reads the same on a machine whose own zone has the stored offset.
func TestCreatedAtDoesNotDependOnTheReader(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	time.Local = time.FixedZone("HOME", 2*60*60)

	at := time.Date(2026, 7, 1, 9, 30, 0, 0, time.FixedZone("", 2*60*60))
	if got := again(t, message.Message{CreatedAt: at}).CreatedAt; !reflect.DeepEqual(got, at) {
		t.Errorf("got %v, want %v", got, at)
	}
}

func TestInstantSurvivesAnyZone(t *testing.T) {
	for _, offset := range []int{53*60 + 28, -(53*60 + 28), 1, -1} {
		at := time.Date(1890, 1, 1, 0, 0, 0, 0, time.FixedZone("LMT", offset))
		if got := again(t, message.Message{CreatedAt: at}).CreatedAt; !got.Equal(at) {
			t.Errorf("offset %d s: got %v, want %v", offset, got, at)
		}
	}
}

func again(t *testing.T, m message.Message) (got message.Message) {
	t.Helper()
	doc, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestUnknownKind(t *testing.T) {
	const image = `{"kind":"image","url":"https://example.com/1.png","size":[1,2]}`
	const doc = `{"v":1,"id":"m1","role":"user","turn":2,"blocks":[{"kind":"text","text":"look"},` +
		image + `,{"kind":"hologram"}]}`
	var m message.Message
	err := json.Unmarshal([]byte(doc), &m)
	if !errors.Is(err, message.ErrUnknownKind) || !strings.Contains(err.Error(), `unknown block kind "image"`) {
		t.Errorf("error %v", err)
	}
	want := message.Message{ID: "m1", Role: "user", Turn: 2, Blocks: []message.Block{
		message.Text("look"),
		{Kind: "image", Raw: json.RawMessage(image)},
		{Kind: "hologram", Raw: json.RawMessage(`{"kind":"hologram"}`)},
	}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("got %+v, want %+v", m, want)
	}
	stored, err := json.Marshal(m)
	if err != nil || string(stored) != doc {
		t.Errorf("stored again as %s, %v", stored, err)
	}
}

// The decoded bytes may belong to a buffer that is used again.
func TestUnknownKindOwnsItsBytes(t *testing.T) {
	doc := []byte(`{"kind":"image"}`)
	var b message.Block
	if err := b.UnmarshalJSON(doc); !errors.Is(err, message.ErrUnknownKind) {
		t.Fatal(err)
	}
	clear(doc)
	if string(b.Raw) != `{"kind":"image"}` {
		t.Errorf("got %q", b.Raw)
	}
}

func TestUnknownVersion(t *testing.T) {
	for _, doc := range []string{
		`{"v":2,"blocks":{"of":"another form"}}`, `{"v":0}`, `{"v":-1}`, `{"role":"user"}`,
		`null`,
	} {
		m := message.User("before")
		err := m.UnmarshalJSON([]byte(doc))
		if !errors.Is(err, message.ErrUnknownVersion) {
			t.Errorf("%s: %v", doc, err)
		}
		if !reflect.DeepEqual(m, message.User("before")) {
			t.Errorf("%s changed the message", doc)
		}
	}
}

func TestMalformed(t *testing.T) {
	for _, doc := range []string{
		``, `{`, `[]`, `"hi"`, `{"v":"1"}`, `{"v":1.5}`, `{"v":1,"turn":"one"}`, `{"v":1,"created_at":"yesterday"}`,
		`{"v":1,"created_at":"2026-03-01 09:30:00"}`, `{"v":1,"blocks":{}}`, `{"v":1,"blocks":[null]}`,
		`{"v":1,"blocks":[1]}`,
		`{"v":1,"blocks":[{"kind":1}]}`, `{"v":1,"blocks":[{"kind":"text","text":1}]}`,
		`{"v":1,"blocks":[{"kind":"reasoning","text":[]}]}`, `{"v":1,"blocks":[{"kind":"tool_call","id":1}]}`,
		`{"v":1,"blocks":[{"kind":"tool_result","is_error":"no"}]}`, `{"v":1,"blocks":[{"kind":"image"},{"kind":1}]}`,
	} {
		m := message.User("before")
		err := m.UnmarshalJSON([]byte(doc))
		if err == nil || errors.Is(err, message.ErrUnknownKind) || errors.Is(err, message.ErrUnknownVersion) {
			t.Errorf("%s: %v", doc, err)
		}
		if !reflect.DeepEqual(m, message.User("before")) {
			t.Errorf("%s changed the message", doc)
		}
	}
}

// A block that could not be decoded again is not encoded.
func TestInconsistentBlocks(t *testing.T) {
	for _, b := range []message.Block{
		{},
		{Kind: "image"},
		{Kind: "image", Raw: json.RawMessage(`{"kind":"video"}`)},
		{Kind: "image", Raw: json.RawMessage(`{"kind":"image"`)},
		{Kind: "image", Text: "a cat", Raw: json.RawMessage(`{"kind":"image"}`)},
		{Kind: message.KindText, Raw: json.RawMessage(`{}`)},
		{Kind: message.KindReasoning, Raw: json.RawMessage(`{`)},
		{Kind: message.KindToolCall},
		{Kind: message.KindToolCall, Text: "hi", Raw: json.RawMessage(`{"id":"c1"}`)},
		{Kind: message.KindToolResult, Raw: json.RawMessage(`[]`)},
	} {
		if doc, err := json.Marshal(message.Message{Blocks: []message.Block{b}}); err == nil {
			t.Errorf("%+v is stored as %s", b, doc)
		}
	}
}

type plan struct {
	Goal  string
	Steps []step
}

type step struct {
	Name  string
	Due   time.Time
	Cents map[string]int64
	Then  []step
	Why   *message.Message
}

// State keeps its types at every level, and so do messages in it.
func TestNestedStateRoundTrips(t *testing.T) {
	why := message.Message{Role: message.RoleUser, Blocks: []message.Block{message.Text("refund me")}}
	want := plan{"refund", []step{
		{Name: "look up", Due: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), Why: &why},
		{
			Name: "pay", Cents: map[string]int64{"EUR": 1 << 60},
			Then: []step{{Name: "notify", Then: []step{{Name: "close"}}}},
		},
	}}
	doc, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got plan
	if err := json.Unmarshal(doc, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}

	var args plan
	call, _ := message.ToolCall("c1", "plan", doc).Call()
	if err := json.Unmarshal(call.Args, &args); err != nil || !reflect.DeepEqual(args, want) {
		t.Errorf("as arguments of a call: %+v, %v", args, err)
	}
}
