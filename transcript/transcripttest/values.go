package transcripttest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// wantExact appends messages, and checks that they come back as they were given, also from a copy.
func (p *probe) wantExact(k transcript.Key, msgs []message.Message) {
	s := p.append(k, "exact", msgs)
	if n := transcript.Count([]transcript.Span{s}); n != int64(len(msgs)) {
		fail("%d messages have the numbers %v", len(msgs), s)
	}
	to := k
	to.Session = "copy of it"
	p.copy(k, to, s)
	for _, k := range []transcript.Key{k, to} {
		_, got := p.read(k, s)
		if len(got) != len(msgs) {
			fail("%d messages come back as %d", len(msgs), len(got))
		}
		for i := range got {
			if a, b := form(got[i]), form(msgs[i]); a != b {
				at := 0
				for at < min(len(a), len(b)) && a[at] == b[at] {
					at++
				}
				fail("message %d comes back with %.200q, want %.200q", i+1, a[at:], b[at:])
			}
		}
	}
	p.trim(to, zero, len(msgs))
}

// unknown returns a block of a kind that this version does not know.
func unknown(doc string) message.Block {
	return message.Block{Kind: "image", Raw: json.RawMessage(doc)}
}

// text has what an encoding may lose.
const text = "naïve \"quotes\" \\ \r\n\t <&> 🙂 𝄞 /../ %2f {a}\u0001\u007f\u0080\u2028" +
	"\ufffd\ufeff e\u0301 \U0010ffff $1 ?"

// every holds messages with all kinds of blocks, and with all that a message may have.
var every = []message.Message{
	{},
	{Role: "x"},
	message.System(""), message.User(text), message.Assistant(strings.Repeat(text, 100)),
	{
		ID: text, Role: text, Turn: math.MaxInt32, CreatedAt: time.Date(2026, 3, 1, 9, 30, 0, 123456789, time.UTC),
		Blocks: []message.Block{
			message.Text(""), message.Text(text), message.Reasoning(text, nil),
			message.Reasoning("", json.RawMessage(`{"signature":"a/b+c==","n":[1.0,1e2,-0,null]}`)),
			message.ToolCall("call_0", "order", json.RawMessage(`{"b":1.50,"a":12345678901234567890.123,"b":2}`)),
			message.ToolCall("", "", nil), message.ToolCall("x", text, json.RawMessage(`not JSON`)),
			message.ToolResult("call_0", text, false), message.ToolResult("", "", true),
		},
	},
	{Turn: -1, CreatedAt: time.Date(1969, 12, 31, 23, 59, 59, 1, time.FixedZone("", -5*3600-1800))},
	{CreatedAt: time.Date(9999, 12, 31, 0, 0, 0, 999999999, time.FixedZone("east", 14*3600))},
	{Role: message.RoleUser, Blocks: []message.Block{
		unknown(`{"kind":"image","z":1.0,"a":{"y":1e300,"x":[]},"n":0.10000000000000000000000001}`),
		message.Text("between"), unknown(`{"url":"a b","kind":"image","url":"","\u00e9":"\ud83d\ude00"}`),
	}},
}

// large returns a message of a size, as JSON.
func large(size int) message.Message {
	return message.User(strings.Repeat("x", size-len(form(message.User("")))))
}

var valueClauses = []clause{
	{
		name: "values",
		rule: "messages come back as they were given",
		check: func(p *probe) {
			for i, m := range every {
				p.wantExact(key(fmt.Sprint("s", i)), []message.Message{m})
			}
			p.wantExact(key("all"), every)
		},
	},
	{
		name: "values-kind",
		rule: "a block of a kind that this version does not know is no error: it is kept as it is",
		check: func(p *probe) {
			const doc = `{"kind":"image","z":1.0,"a":1e2,"z":[{}]}`
			blocks := []message.Block{message.Text("a"), unknown(doc), message.Text("b")}
			m := message.Message{Role: "user", Blocks: blocks}
			s := p.append(key("s"), "a", []message.Message{m, message.User("next")})
			all, got := p.read(key("s"), s)
			if len(got) != 2 || name(got[1]) != "next" {
				fail("read %q", all)
			}
			b := got[0].Blocks
			if len(b) != 3 || b[0].Text != "a" || b[1].Kind != "image" || string(b[1].Raw) != doc || b[2].Text != "b" {
				fail("the blocks are %q, want %s in the middle", b, doc)
			}
		},
	},
	{
		name: "values-names",
		rule: "names and ids may have any text, up to their bounds",
		check: func(p *probe) {
			long := strings.Repeat("x", 512)
			for i, end := range []string{"a", "b", ""} {
				k := transcript.Key{Orchestrator: long, Session: long[:511] + end}
				p.wantSaidIn(k, "first", i+1, span(1, int64(i+1)))
				p.wantSaidIn(key("long ids"), long[:511]+end, 1, span(int64(i+1), int64(i+1)))
			}
			for _, name := range []string{long, text, strings.Repeat("é", 256), "entry:1", "*", "1", "head"} {
				k := transcript.Key{Orchestrator: name, Session: name}
				for range 2 {
					p.wantSaidIn(k, name, 1, span(1, 1))
					p.wantSaidIn(k, "2", 1, span(2, 2))
				}
				p.wantRead(k, []transcript.Span{span(1, 2)}, name+".1", "2.1")
				p.trim(k, zero, 2)
			}
		},
	},
	{
		name: "values-large",
		rule: "an entry may have MaxEntry bytes as JSON, and a session several large ones",
		check: func(p *probe) {
			p.wantExact(key("s"), []message.Message{large(1 << 20), large(1 << 19)})
			var all []string
			for i, size := range []int{transcript.MaxEntry, 1 << 20, 1 << 20, 1 << 20} {
				m := large(size - len(`[]`))
				p.append(key("largest"), fmt.Sprint("e", i), []message.Message{m})
				all = append(all, name(m))
			}
			if got, _ := p.read(key("largest"), span(1, 4)); !slices.Equal(got, all) {
				fail("%d large messages come back as %d others", len(all), len(got))
			}
		},
	},
	{
		name: "values-most",
		rule: "an entry may have MaxMessages messages",
		check: func(p *probe) {
			all := texts("m", transcript.MaxMessages)
			if got := p.append(key("s"), "a", said(all...)); got != span(1, transcript.MaxMessages) {
				fail("the numbers are %v", got)
			}
			p.wantAll(all...)
			p.wantRead(key("s"), []transcript.Span{span(4000, 4001)}, all[3999], all[4000])
			p.wantSaid("b", 1, span(transcript.MaxMessages+1, transcript.MaxMessages+1))
			p.copy(key("s"), key("t"), span(4000, 4000))
			p.trim(key("s"), future, transcript.MaxMessages)
			p.wantAllIn(key("t"), all...)
		},
	},
	{
		name: "values-aliased",
		rule: "the store shares no memory with its callers",
		check: func(p *probe) {
			doc := json.RawMessage(`{"kind":"image","a":"aaaa"}`)
			msgs := []message.Message{{Role: "user", Blocks: []message.Block{unknown(string(doc))}}}
			s := p.append(key("s"), "a", msgs)
			want := form(msgs[0])
			copy(msgs[0].Blocks[0].Raw, `{"kind":"image","a":"bbbb"}`)
			for range 2 {
				all, got := p.read(key("s"), s)
				if len(got) != 1 || form(got[0]) != want {
					fail("read %q, want %s", all, want)
				}
				copy(got[0].Blocks[0].Raw, `{"kind":"image","a":"cccc"}`)
				got[0].Blocks[0].Text = "changed"
			}
		},
	},
}

func isDamage(what string) bool { return strings.HasPrefix(what, "!") }
