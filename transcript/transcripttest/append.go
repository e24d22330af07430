package transcripttest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/transcript"
)

// names are names that a store may take for one another.
var names = []string{"s", "S", "s ", " s", "s/", "s%", "s_", "ss", "s\u0001", "é", "e\u0301", "{s}", "*", "s:1"}

var appendClauses = []clause{
	{
		name: "append",
		rule: "Append adds an entry behind all that the transcript has, and numbers begin at 1",
		check: func(p *probe) {
			p.wantAll()
			p.wantSaid("a", 2, span(1, 2))
			p.wantAll("a.1", "a.2")
			p.wantSaid("b", 1, span(3, 3))
			p.wantSaid("0", 3, span(4, 6))
			p.wantAll("a.1", "a.2", "b.1", "0.1", "0.2", "0.3")
		},
	},
	{
		name: "append-again",
		rule: "if the session has an entry with this id, nothing changes, and Append returns the span of that entry",
		check: func(p *probe) {
			for range 2 {
				p.wantSaid("a", 2, span(1, 2))
			}
			p.wantSaid("b", 1, span(3, 3))
			p.wantSaid("c", 2, span(4, 5))
			for range 2 {
				p.wantSaid("c", 2, span(4, 5))
				p.wantSaid("a", 2, span(1, 2))
				p.wantSaid("b", 1, span(3, 3))
			}
			p.wantAll("a.1", "a.2", "b.1", "c.1", "c.2")
			p.wantSaid("d", 1, span(6, 6))
		},
	},
	{
		name: "append-other",
		rule: "if the session has an entry with this id, its messages stay, also if Append is called with others",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 2)
			for _, other := range [][]string{{"other", "two"}, {"one"}, {"three", "are", "more"}} {
				if got := p.append(key("s"), "a", said(other...)); got != span(1, 2) {
					fail("the entry had messages 1 to 2, and has %v", got)
				}
			}
			p.wantAll("a.1", "a.2", "b.1", "b.2")
		},
	},
	{
		name: "append-ids",
		rule: "ids are compared byte by byte",
		check: func(p *probe) {
			for range 2 {
				for i, id := range names {
					p.wantSaid(id, 1, span(int64(i+1), int64(i+1)))
				}
			}
		},
	},
	{
		name: "append-once",
		rule: "a number is given once, also if its message was trimmed",
		check: func(p *probe) {
			for i, id := range []string{"a", "b", "c", "d", "e"} {
				n := int64(2*i + 1)
				p.wantSaid(id, 2, span(n, n+1))
				if i > 0 {
					p.trim(key("s"), future, 2)
				}
				p.trim(key("s"), future, 0)
			}
			p.wantRead(key("s"), []transcript.Span{span(1, 10)}, missing(1, 8), "e.1", "e.2")
			p.wantSaid("e", 2, span(9, 10))
			p.wantSaid("a", 1, span(11, 11)) // the entry was trimmed
			p.wantSaid("a", 1, span(11, 11))
			p.wantRead(key("s"), []transcript.Span{span(9, 11)}, "e.1", "e.2", "a.1")
		},
	},
}

// wantApart checks that sessions have nothing to do with each other.
func (p *probe) wantApart(keys []transcript.Key) {
	text := func(k transcript.Key) string { return fmt.Sprintf("%q of %q", k.Session, k.Orchestrator) }
	for range 2 {
		for _, k := range keys {
			if got := p.append(k, "a", said(text(k))); got != span(1, 1) {
				fail("the first message of %q is %v", k, got)
			}
		}
	}
	for _, k := range keys {
		p.wantAllIn(k, text(k))
	}
	p.trim(keys[0], zero, 1)
	p.wantAllIn(keys[0])
	for _, k := range keys[1:] {
		p.wantAllIn(k, text(k))
	}
	for _, k := range keys[2:] {
		p.copy(keys[1], transcript.Key{Orchestrator: k.Orchestrator, Session: k.Session + " copy"}, span(1, 1))
		p.wantAllIn(k, text(k))
	}
	p.wantAllIn(keys[0])
}

var apartClauses = []clause{
	{
		name: "sessions-apart",
		rule: "sessions have nothing to do with each other, also if their names are alike",
		check: func(p *probe) {
			var keys []transcript.Key
			for _, session := range names {
				keys = append(keys, key(session))
			}
			p.wantApart(keys)
		},
	},
	{
		name: "orchestrators-apart",
		rule: "orchestrators have nothing to do with each other, also if sessions have one name",
		check: func(p *probe) {
			var keys []transcript.Key
			for _, bot := range append([]string{"b", "bot/s", "bo_"}, names...) {
				keys = append(keys, transcript.Key{Orchestrator: bot, Session: "s"})
			}
			p.wantApart(append(keys, transcript.Key{Orchestrator: "bot", Session: "s/s"}))
		},
	},
}
