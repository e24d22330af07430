package transcript_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

var key = transcript.Key{Orchestrator: "bot", Session: "s"}

func span(from, through int64) transcript.Span { return transcript.Span{From: from, Through: through} }

// sized returns a message of a size, as JSON.
func sized(size int) message.Message {
	const empty = `{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":""}]}`
	return message.User(strings.Repeat("x", size-len(empty)))
}

func TestEncodeEntry(t *testing.T) {
	hi := []message.Message{message.User("hi")}
	text := []message.Message{{Blocks: []message.Block{{Kind: "text", Raw: []byte("1")}}}}
	raw := func(doc string) []message.Message {
		return []message.Message{{Blocks: []message.Block{{Kind: "image", Raw: json.RawMessage(doc)}}}}
	}
	for text, c := range map[string]struct {
		key  transcript.Key
		id   string
		msgs []message.Message
		want string // "" if it is refused because of the text
	}{
		"": {key, "a", hi, `[{"v":1,"role":"user","turn":0,"blocks":[{"kind":"text","text":"hi"}]}]`},
		"as it is": {
			key, strings.Repeat("x", 512), raw(`{"kind":"image","b":1.0,"a":1}`),
			`[{"v":1,"role":"","turn":0,"blocks":[{"kind":"image","b":1.0,"a":1}]}]`,
		},
		"two": {
			key, "a", make([]message.Message, 2),
			`[{"v":1,"role":"","turn":0,"blocks":[]},{"v":1,"role":"","turn":0,"blocks":[]}]`,
		},
		"empty session":           {transcript.Key{Orchestrator: "bot"}, "a", hi, ""},
		"empty orchestrator":      {transcript.Key{Session: "s"}, "a", hi, ""},
		"empty id":                {key, "", hi, ""},
		"id holds U+0000":         {key, "\x00", hi, ""},
		"id of 513 bytes":         {key, strings.Repeat("x", 513), hi, ""},
		"0 messages":              {key, "a", nil, ""},
		"4097 messages":           {key, "a", make([]message.Message, transcript.MaxMessages+1), ""},
		"U+0000":                  {key, "a", []message.Message{message.User("\x00")}, ""},
		"surrogate":               {key, "a", raw(`{"kind":"image","x":"\udc00"}`), ""},
		"16777217 bytes":          {key, "a", []message.Message{sized(transcript.MaxEntry - 1)}, ""},
		`unknown block kind "a"`:  {key, "a", []message.Message{{Blocks: []message.Block{{Kind: "a"}}}}, ""},
		"not that of a text bloc": {key, "a", text, ""},
	} {
		body, err := transcript.EncodeEntry(c.key, c.id, c.msgs)
		refused := errors.Is(err, transcript.ErrInvalid) && strings.Contains(fmt.Sprint(err), text)
		if string(body) != c.want || c.want == "" && !refused || c.want != "" && err != nil {
			t.Errorf("%s: %.200s, %v, want %s", text, body, err, c.want)
		}
	}
	body, err := transcript.EncodeEntry(key, "a", []message.Message{sized(transcript.MaxEntry - 2)})
	if err != nil || len(body) != transcript.MaxEntry {
		t.Errorf("the largest entry has %d bytes, %v", len(body), err)
	}
	most := make([]message.Message, transcript.MaxMessages)
	if _, err := transcript.EncodeEntry(key, "a", most); err != nil {
		t.Errorf("most messages: %v", err)
	}
}

func TestValidate(t *testing.T) {
	other := transcript.Key{Orchestrator: "bot", Session: "other"}
	most := make([]transcript.Span, transcript.MaxSpans)
	for _, c := range []struct {
		spans []transcript.Span
		text  string // "" if they are valid
	}{
		{nil, ""},
		{[]transcript.Span{}, ""},
		{[]transcript.Span{{}, span(1, 1), {}, span(1, transcript.MaxNumber), span(1, 1)}, ""},
		{[]transcript.Span{span(transcript.MaxNumber, transcript.MaxNumber)}, ""},
		{most, ""},
		{append(most, span(1, 1)), "4097 spans, and 4096 are the most"},
		{[]transcript.Span{span(0, 1)}, "span 0 to 1"},
		{[]transcript.Span{span(1, 0)}, "span 1 to 0"},
		{[]transcript.Span{span(-3, -2)}, "span -3 to -2"},
		{[]transcript.Span{span(1, 2), span(4, 3)}, "span 4 to 3"},
		{[]transcript.Span{span(1, transcript.MaxNumber+1)}, "span 1 to 9007199254740993"},
	} {
		for what, err := range map[string]error{
			"read": transcript.ValidateRead(key, c.spans), "copy": transcript.ValidateCopy(key, other, c.spans),
		} {
			if c.text == "" && err != nil ||
				c.text != "" && (!errors.Is(err, transcript.ErrInvalid) || !strings.Contains(err.Error(), c.text)) {
				t.Errorf("%s of %d spans: %v, want %q", what, len(c.spans), err, c.text)
			}
		}
	}
	for what, err := range map[string]error{
		"a read of no session":  transcript.ValidateRead(transcript.Key{Orchestrator: "bot"}, nil),
		"a copy of no session":  transcript.ValidateCopy(transcript.Key{Orchestrator: "bot"}, key, nil),
		"a copy to no session":  transcript.ValidateCopy(key, transcript.Key{Session: "s"}, nil),
		"a copy of the session": transcript.ValidateCopy(key, key, nil),
	} {
		if !errors.Is(err, transcript.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
