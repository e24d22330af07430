package transcripttest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/transcript"
)

// wantTaken checks that a copy is refused.
func (p *probe) wantTaken(from, to transcript.Key, spans ...transcript.Span) {
	want(p.store.Copy(p.ctx, from, to, spans), transcript.ErrTaken)
}

var copyClauses = []clause{
	{
		name: "copy",
		rule: "Copy gives the entries of spans to another session, and they keep their numbers",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 1)
			p.say("c", 3)
			p.copy(key("s"), key("t"), span(1, 6))
			p.wantAllIn(key("t"), "a.1", "a.2", "b.1", "c.1", "c.2", "c.3")
			p.copy(key("s"), key("u"), span(4, 6), transcript.Span{}, span(3, 3), span(4, 6))
			p.wantRead(key("u"), []transcript.Span{span(1, 7)}, "!1 to 2", "b.1", "c.1", "c.2", "c.3", "!7")
			other := transcript.Key{Orchestrator: "another", Session: "s"}
			p.copy(key("s"), other, span(1, 2))
			p.wantAllIn(other, "a.1", "a.2")
			p.wantAll("a.1", "a.2", "b.1", "c.1", "c.2", "c.3")
		},
	},
	{
		name: "copy-part",
		rule: "of an entry that spans name in part, Copy copies all",
		check: func(p *probe) {
			for _, id := range []string{"a", "b", "c", "d"} {
				p.say(id, 3)
			}
			p.copy(key("s"), key("t"), span(6, 7))
			p.wantRead(key("t"), []transcript.Span{span(1, 12)}, "!1 to 3", "b.1", "b.2", "b.3", "c.1", "c.2", "c.3",
				"!10 to 12")
			p.copy(key("s"), key("u"), span(11, 11), span(1, 1))
			p.wantRead(key("u"), []transcript.Span{span(1, 12)}, "a.1", "a.2", "a.3", "!4 to 9", "d.1", "d.2", "d.3")
			p.copy(key("s"), key("v"), span(3, 4), span(1, 1), span(6, 6))
			p.wantAllIn(key("v"), "a.1", "a.2", "a.3", "b.1", "b.2", "b.3")
		},
	},
	{
		name: "copy-again",
		rule: "what the session has already is no error for Copy, and a repeat changes nothing",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 2)
			p.say("c", 2)
			for range 2 {
				p.copy(key("s"), key("t"), span(1, 4))
			}
			p.wantAllIn(key("t"), "a.1", "a.2", "b.1", "b.2")
			p.copy(key("s"), key("t"), span(2, 6))
			p.wantAllIn(key("t"), "a.1", "a.2", "b.1", "b.2", "c.1", "c.2")
			p.wantSaidIn(key("t"), "d", 1, span(7, 7))
			p.copy(key("s"), key("t"), span(1, 6))
			p.copy(key("t"), key("s"), span(1, 6)) // they have the same
			p.wantAllIn(key("t"), "a.1", "a.2", "b.1", "b.2", "c.1", "c.2", "d.1")
			p.wantAll("a.1", "a.2", "b.1", "b.2", "c.1", "c.2")
			p.wantSaid("b", 2, span(3, 4)) // it keeps its id
		},
	},
	{
		name: "copy-taken",
		rule: "if the session has something else at one of the numbers, Copy returns ErrTaken, and nothing is copied",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 2)
			p.say("c", 2)
			one, two, three := key("one"), key("two"), key("three")
			p.append(one, "a", said(texts("a", 2)...))
			p.append(one, "b", said("b.1", "other"))
			p.wantTaken(key("s"), one, span(1, 6))
			p.wantTaken(key("s"), one, span(5, 6), span(3, 3))
			p.wantTaken(key("s"), one, span(4, 4))
			p.wantAllIn(one, "a.1", "a.2", "b.1", "other")
			p.copy(key("s"), one, span(5, 6), span(1, 2)) // the other entry is in no span
			p.wantAllIn(one, "a.1", "a.2", "b.1", "other", "c.1", "c.2")

			p.append(two, "a", said("a.1")) // the same messages, in other entries
			p.append(two, "b", said("a.2"))
			p.wantTaken(key("s"), two, span(1, 6))
			p.wantAllIn(two, "a.1", "a.2")

			p.append(three, "all", said("a.1", "a.2", "b.1"))
			p.wantTaken(key("s"), three, span(4, 6))
			p.wantTaken(key("s"), three, span(1, 1))
			p.wantAllIn(three, "a.1", "a.2", "b.1")

			p.copy(one, key("four"), span(3, 3)) // it has nothing at 1 and 2
			p.wantTaken(key("s"), key("four"), span(1, 6))
			p.wantRead(key("four"), []transcript.Span{span(1, 6)}, "!1 to 2", "b.1", "other", "!5 to 6")
			p.wantAll("a.1", "a.2", "b.1", "b.2", "c.1", "c.2")
		},
	},
	{
		name: "copy-missing",
		rule: "what the source does not have is not copied",
		check: func(p *probe) {
			p.copy(key("unknown"), key("t"), span(1, 3))
			p.wantAllIn(key("t"))
			p.wantSaidIn(key("t"), "first", 1, span(1, 1))
			for i := range 4 {
				p.say(fmt.Sprint("e", i+1), 2)
			}
			p.trim(key("s"), future, 4, span(4, 4)) // it leaves 3, 4, 7 and 8
			p.copy(key("s"), key("t"), span(1, transcript.MaxNumber))
			p.wantRead(key("t"), []transcript.Span{span(1, 9)}, "first.1", "!2", "e2.1", "e2.2", "!5 to 6", "e4.1",
				"e4.2", "!9")
			p.copy(key("s"), key("t"), span(1, 1), span(9, 12))
			p.copy(key("s"), key("t"))
			p.copy(key("s"), key("t"), transcript.Span{}, transcript.Span{})
			p.copy(key("s"), key("nothing"))
			p.wantAllIn(key("nothing"))
			p.wantSaidIn(key("nothing"), "a", 1, span(1, 1))
		},
	},
	{
		name: "copy-then-append",
		rule: "an entry that is appended to a copy has the numbers behind all that was copied",
		check: func(p *probe) {
			for i := range 5 {
				p.say(fmt.Sprint("e", i+1), 2)
			}
			p.copy(key("s"), key("t"), span(7, 7))
			p.wantSaidIn(key("t"), "a", 1, span(9, 9))
			p.copy(key("s"), key("t"), span(1, 1))
			p.wantSaidIn(key("t"), "b", 2, span(10, 11))
			p.wantSaid("own", 1, span(11, 11))
			p.wantRead(key("t"), []transcript.Span{span(1, 11)}, "e1.1", "e1.2", "!3 to 6", "e4.1", "e4.2", "a.1",
				"b.1", "b.2")
		},
	},
	{
		name: "copy-ids",
		rule: "entries lose their ids if they are copied",
		check: func(p *probe) {
			p.say("a", 1)
			p.say("b", 1)
			p.copy(key("s"), key("t"), span(1, 2))
			for range 2 {
				p.wantSaidIn(key("t"), "a", 2, span(3, 4))
				p.wantSaidIn(key("t"), "b", 1, span(5, 5))
			}
			p.wantAllIn(key("t"), "a.1", "b.1", "a.1", "a.2", "b.1")
			p.copy(key("t"), key("u"), span(1, 5)) // several have lost their ids
			p.wantAllIn(key("u"), "a.1", "b.1", "a.1", "a.2", "b.1")
		},
	},
	{
		name: "copy-time",
		rule: "the time of a copied entry is that of the copy",
		check: func(p *probe) {
			p.say("a", 1)
			p.say("b", 1)
			t := p.later()
			p.copy(key("s"), key("t"), span(1, 2))
			p.trim(key("t"), t, 0)
			p.trim(key("s"), t, 1)
			p.trim(key("t"), p.later(), 1)
		},
	},
	{
		name: "copy-many",
		rule: "Copy gives many entries to another session",
		check: func(p *probe) {
			all := p.sayMany()
			n := int64(len(all))
			p.copy(key("s"), key("t"), span(1, 7), span(8, n))
			p.wantAllIn(key("t"), all...)
			var spans []transcript.Span
			for i := range int64(transcript.MaxSpans) {
				spans = append(spans, span(i+1, i+1))
			}
			p.copy(key("s"), key("u"), spans...)
			p.copy(key("s"), key("t"), spans...)
			p.wantAllIn(key("u"), all...)
			p.trim(key("u"), future, 0, spans...)
			p.trim(key("u"), future, 4, spans[4:]...)
			p.trim(key("u"), zero, int(n)-4)
		},
	},
}
