package transcripttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

// badNames are no names.
var badNames = []string{"", "a\x00b", "\xff", strings.Repeat("x", 513)}

// badSpans are spans that no store takes.
var badSpans = [][]transcript.Span{
	{span(0, 1)},
	{span(1, 0)},
	{span(-1, 1)},
	{span(-2, -1)},
	{span(3, 2)},
	{span(1, transcript.MaxNumber+1)},
	{span(1, 1), span(0, 1)},
	{{}, span(5, 4)},
	make([]transcript.Span, transcript.MaxSpans+1),
}

// block returns messages with one block.
func block(b message.Block) []message.Message {
	return []message.Message{message.User("fine"), {Role: "user", Blocks: []message.Block{b}}}
}

// badMessages returns messages that no store takes.
func badMessages() map[string][]message.Message {
	deep := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	return map[string][]message.Message{
		"no messages":        nil,
		"too many messages":  make([]message.Message, transcript.MaxMessages+1),
		"U+0000":             said("a\x00b"),
		"U+0000 in an id":    {{ID: "\x00"}},
		"U+0000 of a model":  block(message.ToolCall("a", "b", json.RawMessage(`"\u0000"`))),
		"a lone surrogate":   block(unknown(`{"kind":"image","a":"\ud800"}`)),
		"no JSON":            block(unknown(`{`)),
		"no raw JSON":        block(message.Block{Kind: "image"}),
		"another kind":       block(message.Block{Kind: "audio", Raw: json.RawMessage(`{"kind":"image"}`)}),
		"text with raw JSON": block(message.Block{Kind: message.KindText, Raw: json.RawMessage(`1`)}),
		"no call":            block(message.Block{Kind: message.KindToolCall}),
		"a number too large": block(unknown(`{"kind":"image","a":1e999999}`)),
		"too deep":           block(unknown(`{"kind":"image","a":` + deep + `}`)),
		"too large":          {large(transcript.MaxEntry - len(`[]`) + 1)},
	}
}

// calls calls every method with a key and spans, and returns the errors by name.
func (p *probe) calls(k transcript.Key, spans []transcript.Span) map[string]error {
	deleted, trimmed := p.store.Trim(p.ctx, k, spans, future)
	if trimmed != nil && deleted != 0 {
		fail("Trim fails, and returns %d", deleted)
	}
	return map[string]error{
		"Read": p.last(k, spans), "Trim": trimmed,
		"Copy from it": p.store.Copy(p.ctx, k, key("copy"), spans),
		"Copy to it":   p.store.Copy(p.ctx, key("t"), k, spans),
	}
}

// last returns the last error of Read, or nil.
func (p *probe) last(k transcript.Key, spans []transcript.Span) (last error) {
	for m, err := range p.store.Read(p.ctx, k, spans) {
		if last = err; err != nil && len(m.Blocks) > 0 {
			fail("a message comes with error %v", err)
		}
	}
	return last
}

// wantUntouched checks the sessions that a call may have written.
func (p *probe) wantUntouched() {
	p.wantAll("kept.1", "kept.2", "newest.1")
	p.wantAllIn(key("t"), "kept.1", "kept.2", "newest.1")
	p.wantAllIn(key("copy"))
	p.wantSaid("kept", 1, span(1, 2))
	p.wantSaidIn(key("copy"), "a", 1, span(1, 1))
	p.trim(key("copy"), zero, 1)
}

func (p *probe) keep() {
	for _, session := range []string{"s", "t"} {
		p.sayIn(key(session), "kept", 2)
		p.sayIn(key(session), "newest", 1)
	}
}

var refusedClauses = []clause{
	{
		name: "refused",
		rule: "an argument that no store takes is ErrInvalid, and nothing is written",
		check: func(p *probe) {
			p.keep()
			refuse := func(what string, err error) {
				if !errors.Is(err, transcript.ErrInvalid) {
					fail("%s: got error %v, want %v", what, err, transcript.ErrInvalid)
				}
			}
			for what, msgs := range badMessages() {
				for _, id := range []string{"a", "kept"} {
					s, err := p.store.Append(p.ctx, key("s"), id, msgs)
					if refuse(what, err); s != (transcript.Span{}) {
						fail("%s is refused, and has the numbers %v", what, s)
					}
				}
			}
			all := []transcript.Span{span(1, 3)}
			for _, bad := range badNames {
				_, err := p.store.Append(p.ctx, key("s"), bad, said("a"))
				refuse("an id", err)
				for _, k := range []transcript.Key{key(bad), {Orchestrator: bad, Session: "s"}} {
					_, err := p.store.Append(p.ctx, k, "a", said("a"))
					refuse("the key of Append", err)
					for what, err := range p.calls(k, all) {
						refuse("the key of "+what, err)
					}
				}
			}
			for _, spans := range badSpans {
				for what, err := range p.calls(key("s"), spans) {
					refuse("the spans of "+what, err)
				}
			}
			refuse("a copy to itself", p.store.Copy(p.ctx, key("s"), key("s"), all))
			refuse("a copy of nothing to itself", p.store.Copy(p.ctx, key("s"), key("s"), nil))
			p.wantUntouched()
		},
	},
	{
		name: "refused-not",
		rule: "Read, Copy and Trim take MaxSpans spans, up to MaxNumber",
		check: func(p *probe) {
			p.keep()
			most := make([]transcript.Span, transcript.MaxSpans)
			most[len(most)-1] = span(3, 3)
			most[0] = span(1, transcript.MaxNumber)
			p.wantRead(key("s"), most, "kept.1", "kept.2", "newest.1", missing(4, transcript.MaxNumber), "newest.1")
			p.wantRead(key("s"), []transcript.Span{span(transcript.MaxNumber, transcript.MaxNumber)},
				missing(transcript.MaxNumber, transcript.MaxNumber))
			p.trim(key("s"), future, 0, most...)
			p.copy(key("s"), key("u"), most...)
			p.wantAllIn(key("u"), "kept.1", "kept.2", "newest.1")
		},
	},
	{
		name: "cancelled",
		rule: "with a ctx that is done each call returns its error, and nothing is written",
		check: func(p *probe) {
			p.keep()
			ctx, cancel := context.WithCancel(p.ctx)
			cancel()
			for _, id := range []string{"a", "kept"} {
				s, err := p.store.Append(ctx, key("s"), id, said("a"))
				if want(err, context.Canceled); s != (transcript.Span{}) {
					fail("Append fails, and returns %v", s)
				}
			}
			cancelled := &probe{ctx: ctx, store: p.store}
			for _, err := range cancelled.calls(key("s"), []transcript.Span{span(1, 1)}) {
				want(err, context.Canceled)
			}
			_, err := p.store.Trim(ctx, key("s"), nil, zero)
			want(err, context.Canceled)
			p.wantUntouched()
		},
	},
	{
		name: "cancelled-loop",
		rule: "if ctx ends within a loop over Read, the loop ends with its error",
		check: func(p *probe) {
			p.keep()
			ctx, cancel := context.WithCancel(p.ctx)
			defer cancel()
			var last error
			n := 0
			for _, err := range p.store.Read(ctx, key("s"), []transcript.Span{span(1, 3), span(1, 3)}) {
				n++
				last = err
				cancel()
			}
			if want(last, context.Canceled); n != 2 {
				fail("the loop yields %d times", n)
			}
		},
	},
}
