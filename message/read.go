package message

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// A reader reads the stored form in one pass. It sets odd if the form is not as MarshalJSON writes it or as a database
// gives it back: encoding/json then says what the form means, or what is wrong with it.
type reader struct {
	rest []byte
	odd  bool
}

// readMessage returns the message. ok is false if the form is odd.
func readMessage(doc []byte) (m Message, ok bool) {
	r, v := reader{rest: doc}, 0
	r.object(func(name []byte) {
		switch string(name) {
		case "v":
			v = r.integer()
		case "id":
			m.ID = r.text()
		case "role":
			m.Role = r.text()
		case "turn":
			m.Turn = r.integer()
		case "created_at":
			m.CreatedAt = r.time()
		case "blocks":
			r.list('[', ']', func() { m.Blocks = append(m.Blocks, r.block()) })
		default:
			r.odd = true
		}
	})
	r.space()
	return m, !r.odd && v == version && len(r.rest) == 0
}

// parts are the members that a block may have.
type parts struct {
	kind, text, content string
	metadata            json.RawMessage
	Call
	Result
}

func (r *reader) parts() (p parts) {
	r.object(func(name []byte) {
		switch string(name) {
		case "kind":
			p.kind = r.text()
		case "text":
			p.text = r.text()
		case "content":
			p.content = r.text()
		case "metadata":
			p.metadata = r.raw()
		case "id":
			p.ID = r.text()
		case "name":
			p.Name = r.text()
		case "args":
			p.Args = r.raw()
		case "call_id":
			p.CallID = r.text()
		case "is_error":
			p.IsError = r.boolean()
		default:
			r.odd = true
		}
	})
	return p
}

func (r *reader) block() Block {
	p := r.parts()
	switch p.kind {
	case KindText:
		return Text(p.text)
	case KindReasoning:
		return Reasoning(p.text, p.metadata)
	case KindToolCall:
		return Block{Kind: KindToolCall, Raw: mustJSON(p.Call)}
	case KindToolResult:
		return ToolResult(p.CallID, p.content, p.IsError)
	}
	r.odd = true
	return Block{}
}

// content returns what is in the Raw of a call or of a result. ok is false if the form is odd.
func content(raw json.RawMessage) (p parts, ok bool) {
	r := reader{rest: raw}
	p = r.parts()
	r.space()
	return p, !r.odd && len(r.rest) == 0
}

// object calls member for each member, which reads the value.
func (r *reader) object(member func(name []byte)) {
	seen := make([][]byte, 0, 16)
	r.list('{', '}', func() {
		name, escaped := r.quoted()
		for _, other := range seen {
			r.odd = r.odd || bytes.Equal(other, name)
		}
		if escaped || len(seen) == cap(seen) || !r.take(':') {
			r.odd = true
			return
		}
		seen = append(seen, name)
		member(name)
	})
}

// list calls element for each element, which reads it.
func (r *reader) list(open, end byte, element func()) {
	if !r.take(open) {
		r.odd = true
		return
	}
	if r.take(end) {
		return
	}
	for element(); !r.odd && !r.take(end); element() {
		if !r.take(',') {
			r.odd = true
			return
		}
	}
}

func (r *reader) space() { r.rest = bytes.TrimLeft(r.rest, " \t\r\n") }

// take reports whether c comes next, and goes on behind it.
func (r *reader) take(c byte) bool {
	if r.space(); len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// text reads a string.
func (r *reader) text() string {
	text, escaped := r.quoted()
	if escaped {
		return r.unescape(text)
	}
	return string(text)
}

// quoted returns what is between quotes.
func (r *reader) quoted() (text []byte, escaped bool) {
	if !r.take('"') {
		r.odd = true
		return nil, false
	}
	end := 0
	for ; end < len(r.rest) && r.rest[end] != '"'; end++ {
		switch c := r.rest[end]; {
		case c < ' ':
			r.odd = true
		case c == '\\':
			escaped = true
			end++
		}
	}
	if end >= len(r.rest) || !utf8.Valid(r.rest[:end]) {
		r.odd = true
		return nil, false
	}
	text = r.rest[:end]
	r.rest = r.rest[end+1:]
	return text, escaped
}

// unescape leaves pairs of surrogates to encoding/json.
func (r *reader) unescape(text []byte) string {
	var all strings.Builder
	all.Grow(len(text))
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 {
			all.Write(text)
			return all.String()
		}
		all.Write(text[:i])
		c := text[i+1]
		text = text[i+2:]
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			all.WriteByte("\"\\/\b\f\n\r\t"[i])
			continue
		}
		if c != 'u' || len(text) < 4 {
			r.odd = true
			return ""
		}
		n, err := strconv.ParseUint(string(text[:4]), 16, 16)
		if err != nil || utf16.IsSurrogate(rune(n)) {
			r.odd = true
			return ""
		}
		all.WriteRune(rune(n))
		text = text[4:]
	}
}

func (r *reader) integer() int {
	r.space()
	end := 0
	for end < len(r.rest) && strings.IndexByte("-0123456789", r.rest[end]) >= 0 {
		end++
	}
	digits := string(r.rest[:end])
	n, err := strconv.Atoi(digits)
	r.odd = r.odd || err != nil || strconv.Itoa(n) != digits
	r.rest = r.rest[end:]
	return n
}

func (r *reader) boolean() bool {
	r.space()
	yes := bytes.HasPrefix(r.rest, []byte("true"))
	if !yes && !bytes.HasPrefix(r.rest, []byte("false")) {
		r.odd = true
		return false
	}
	_, r.rest, _ = bytes.Cut(r.rest, []byte("e"))
	return yes
}

func (r *reader) time() (t time.Time) {
	r.space()
	doc := r.rest
	r.quoted()
	err := t.UnmarshalJSON(doc[:len(doc)-len(r.rest)])
	r.odd = r.odd || err != nil
	return sameEverywhere(t)
}

// raw returns the bytes of an array, an object or a string.
func (r *reader) raw() json.RawMessage {
	r.space()
	depth, quoted := 0, false
	for i := 0; i < len(r.rest) && depth < 1000; i++ {
		switch c := r.rest[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth == 0 && !quoted {
			raw := r.rest[:i+1]
			r.rest = r.rest[i+1:]
			if json.Valid(raw) {
				return raw
			}
			break
		}
	}
	r.odd = true
	return nil
}
