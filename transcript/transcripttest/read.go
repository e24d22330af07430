package transcripttest

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/transcript"
)

// many is more entries than the first two pages of a store have.
const many = 64 + 256 + 80

// sayMany appends many entries. Each third one has two messages. It returns the texts of all messages.
func (p *probe) sayMany() (all []string) {
	for i := range many {
		id := fmt.Sprint("e", i)
		n := 1 + i%3/2
		p.say(id, n)
		all = append(all, texts(id, n)...)
	}
	return all
}

var readClauses = []clause{
	{
		name: "read",
		rule: "Read yields the messages of spans: span by span, and in the order of their numbers",
		check: func(p *probe) {
			p.say("a", 3)
			p.say("b", 1)
			p.say("c", 4)
			for _, c := range []struct {
				spans []transcript.Span
				want  []string
			}{
				{nil, nil},
				{[]transcript.Span{{}, {}}, nil},
				{[]transcript.Span{span(1, 4)}, []string{"a.1", "a.2", "a.3", "b.1"}},
				{[]transcript.Span{{}, span(4, 4), {}, span(1, 1), {}}, []string{"b.1", "a.1"}},
				{[]transcript.Span{span(5, 6), span(2, 3)}, []string{"c.1", "c.2", "a.2", "a.3"}},
				{[]transcript.Span{span(2, 2), span(2, 2)}, []string{"a.2", "a.2"}},
				{[]transcript.Span{span(3, 5), span(4, 6)}, []string{"a.3", "b.1", "c.1", "b.1", "c.1", "c.2"}},
				{[]transcript.Span{span(6, 7)}, []string{"c.2", "c.3"}},
				{[]transcript.Span{span(8, 8), span(3, 3)}, []string{"c.4", "a.3"}},
			} {
				p.wantRead(key("s"), c.spans, c.want...)
			}
		},
	},
	{
		name: "read-missing",
		rule: "if messages of a span are not there, a *DamagedError comes in their place, and Read goes on",
		check: func(p *probe) {
			for i := range 8 {
				p.say(fmt.Sprint("e", i+1), 2)
			}
			p.trim(key("s"), future, 6, span(3, 3), span(8, 9), span(14, 14)) // it leaves 3, 4, 7 to 10 and 13 to 16
			for _, c := range []struct {
				spans []transcript.Span
				want  []string
			}{
				{[]transcript.Span{span(1, 2)}, []string{"!1 to 2"}},
				{[]transcript.Span{span(2, 3)}, []string{"!2", "e2.1"}},
				{[]transcript.Span{span(4, 7)}, []string{"e2.2", "!5 to 6", "e4.1"}},
				{[]transcript.Span{span(11, 11), span(12, 12), span(13, 13)}, []string{"!11", "!12", "e7.1"}},
				{[]transcript.Span{span(16, 17)}, []string{"e8.2", "!17"}},
				{[]transcript.Span{span(40, 50), {}, span(4, 4)}, []string{"!40 to 50", "e2.2"}},
				{
					[]transcript.Span{span(1, transcript.MaxNumber)},
					[]string{
						"!1 to 2", "e2.1", "e2.2", "!5 to 6", "e4.1", "e4.2", "e5.1", "e5.2", "!11 to 12", "e7.1",
						"e7.2", "e8.1", "e8.2", missing(17, transcript.MaxNumber),
					},
				},
			} {
				p.wantRead(key("s"), c.spans, c.want...)
			}
			p.wantRead(key("unknown"), []transcript.Span{span(1, 3)}, "!1 to 3")
		},
	},
	{
		name: "read-many",
		rule: "Read yields each of many messages once, and in order",
		check: func(p *probe) {
			all := p.sayMany()
			n := int64(len(all))
			p.wantAll(all...)
			for _, c := range [][2]int64{{2, n - 1}, {64, 65}, {85, 86}, {n, n}, {n - 70, n}, {3, 427}} {
				p.wantRead(key("s"), []transcript.Span{span(c[0], c[1])}, all[c[0]-1:c[1]]...)
			}
			var pieces []transcript.Span
			var backward []string
			for from := n - 99; from > 0; from -= 100 {
				pieces = append(pieces, span(from, from+99))
				backward = append(backward, all[from-1:from+99]...)
			}
			p.wantRead(key("s"), pieces, backward...)
			p.wantHoles(all)
		},
	},
}

// wantHoles trims most of many messages, and reads what is left.
func (p *probe) wantHoles(all []string) {
	n := int64(len(all))
	left := []transcript.Span{span(1, 1), span(80, 88), span(100, 300), span(420, 430)}
	if _, err := p.store.Trim(p.ctx, key("s"), left, future); err != nil {
		ok(err)
	}
	p.wantRead(key("s"), left, slices.Concat(all[:1], all[79:88], all[99:300], all[419:430])...)
	got, _ := p.read(key("s"), span(1, n))
	read, holes := 0, 0
	for _, what := range got {
		if what[0] == '!' {
			holes++
		} else {
			read++
		}
	}
	// The newest entry stays, and an entry stays whole.
	if holes != 4 || read < 1+9+201+11+1 || read > 1+9+201+11+2+6 {
		fail("%d messages and %d gaps: %.300q", read, holes, got)
	}
}
