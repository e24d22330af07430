package transcripttest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/transcript"
)

var zero time.Time

var trimClauses = []clause{
	{
		name: "trim",
		rule: "Trim deletes the entries that are in none of the spans, and returns how many messages they had",
		check: func(p *probe) {
			for i, n := range []int{1, 2, 3, 1, 4, 1} {
				p.say(fmt.Sprint("e", i+1), n)
			}
			p.trim(key("s"), future, 3, span(4, 7), span(8, 11))
			p.wantRead(key("s"), []transcript.Span{span(1, 12)}, "!1 to 3", "e3.1", "e3.2", "e3.3", "e4.1", "e5.1",
				"e5.2", "e5.3", "e5.4", "e6.1")
			p.trim(key("s"), future, 0, span(8, 11), transcript.Span{}, span(4, 7), span(5, 9))
			p.trim(key("s"), future, 4, span(4, 6), span(7, 7), span(40, 50))
			p.trim(key("s"), future, 4)
			p.wantRead(key("s"), []transcript.Span{span(1, 12)}, "!1 to 11", "e6.1")
			p.trim(key("unknown"), future, 0)
			p.trim(key("unknown"), zero, 0)
		},
	},
	{
		name: "trim-part",
		rule: "an entry of which a span names one message stays",
		check: func(p *probe) {
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				p.say(id, 3)
			}
			p.trim(key("s"), future, 3, span(3, 4), span(11, 11))
			p.wantRead(key("s"), []transcript.Span{span(1, 15)}, "a.1", "a.2", "a.3", "b.1", "b.2", "b.3", "!7 to 9",
				"d.1", "d.2", "d.3", "e.1", "e.2", "e.3")
		},
	},
	{
		name: "trim-before",
		rule: "Trim deletes only what was appended before the time",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 1)
			t := p.later()
			p.say("c", 3)
			p.say("d", 1)
			p.trim(key("s"), past, 0)
			p.trim(key("s"), t, 2, span(3, 3))
			p.trim(key("s"), t, 1)
			p.trim(key("s"), t, 0)
			p.wantRead(key("s"), []transcript.Span{span(1, 7)}, "!1 to 3", "c.1", "c.2", "c.3", "d.1")
			p.trim(key("s"), p.later(), 3)
		},
	},
	{
		name: "trim-newest",
		rule: "the newest entry stays",
		check: func(p *probe) {
			p.say("a", 1)
			p.say("b", 2)
			p.trim(key("s"), future, 1)
			p.trim(key("s"), future, 0)
			p.wantRead(key("s"), []transcript.Span{span(1, 3)}, "!1", "b.1", "b.2")
			p.wantSaid("b", 2, span(2, 3))
			p.copy(key("s"), key("t"), span(1, 3))
			p.wantSaidIn(key("t"), "c", 1, span(4, 4))
			p.trim(key("t"), future, 2) // it was copied
			p.wantRead(key("t"), []transcript.Span{span(3, 4)}, "!3", "c.1")
			p.say("d", 1)
			p.copy(key("s"), key("u"), span(4, 4))
			p.copy(key("s"), key("u"), span(2, 3))
			p.trim(key("u"), future, 2) // the newest is the one with the highest number
			p.wantSaidIn(key("u"), "e", 1, span(5, 5))
		},
	},
	{
		name: "trim-all",
		rule: "without spans and time Trim deletes all, and numbers begin again",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 1)
			p.sayIn(key("t"), "a", 1)
			for _, none := range [][]transcript.Span{nil, {}} {
				p.trim(key("s"), time.Time{}.In(time.FixedZone("east", 7200)), 3, none...)
				p.wantAll()
				p.trim(key("s"), zero, 0)
				p.wantSaid("a", 1, span(1, 1))
				p.wantSaid("b", 2, span(2, 3))
				p.wantAll("a.1", "b.1", "b.2")
			}
			p.wantAllIn(key("t"), "a.1")
			p.copy(key("s"), key("u"), span(1, 3))
			p.trim(key("u"), zero, 3)
			p.wantSaidIn(key("u"), "a", 1, span(1, 1))
		},
	},
	{
		name: "trim-no-time",
		rule: "with spans and without a time, or with a time before all, Trim deletes nothing",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 1)
			p.say("c", 1)
			for _, spans := range [][]transcript.Span{{span(3, 3)}, {{}}, {span(40, 50)}, {span(1, 4)}} {
				p.trim(key("s"), zero, 0, spans...)
			}
			early := time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, t := range []time.Time{past, time.Unix(0, 0), early, zero.Add(1)} {
				p.trim(key("s"), t, 0)
				p.trim(key("s"), t, 0, span(3, 3))
			}
			p.wantAll("a.1", "a.2", "b.1", "c.1")
			p.trim(key("s"), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), 3)
		},
	},
	{
		name: "trim-many",
		rule: "Trim deletes many entries",
		check: func(p *probe) {
			all := p.sayMany()
			p.copy(key("s"), key("t"), span(1, int64(len(all))))
			p.trim(key("s"), future, len(all)-1-1-2, span(2, 2), span(251, 251))
			p.wantRead(key("s"), []transcript.Span{span(2, 2), span(251, 252)}, all[1], all[250], all[251])
			p.trim(key("t"), zero, len(all))
			p.wantAllIn(key("t"))
		},
	},
}
