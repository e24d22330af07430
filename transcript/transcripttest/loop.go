package transcripttest

import (
	"fmt"

	"github.com/holdfast-go/holdfast/transcript"
)

var loopClauses = []clause{
	{
		name: "loop",
		rule: "the body of a loop over Read may append, read, copy and trim, also in the session that the loop reads",
		check: func(p *probe) {
			const n = 80
			for i := range n {
				p.say(fmt.Sprint("e", i), 1)
			}
			all := []transcript.Span{span(1, n)}
			seen := 0
			for m, err := range p.store.Read(p.ctx, key("s"), all) {
				ok(err)
				if want := fmt.Sprintf("e%d.1", seen); name(m) != want {
					fail("message %d is %q, want %q", seen+1, name(m), want)
				}
				seen++
				number := int64(seen)
				p.wantSaid(fmt.Sprint("new", seen), 1, span(n+number, n+number))
				p.wantRead(key("s"), []transcript.Span{span(number, number), span(n+number, n+number)}, name(m),
					fmt.Sprintf("new%d.1", seen))
				p.copy(key("s"), key("copy"), span(number, number))
				p.trim(key("s"), future, 0, span(1, 2*n))
			}
			if seen != n {
				fail("the loop has seen %d messages, want %d", seen, n)
			}
			if got, _ := p.read(key("copy"), all...); len(got) != n || got[n-1] != fmt.Sprintf("e%d.1", n-1) {
				fail("the loop has copied %q", got)
			}
		},
	},
	{
		name: "loop-meanwhile",
		rule: "a loop over Read yields each message that is there all the time, also if others are trimmed",
		check: func(p *probe) {
			all := p.sayMany()
			stay := []transcript.Span{span(1, 10), span(200, 260), span(500, 510)}
			seen := make(map[string]int)
			n := 0
			for m, err := range p.store.Read(p.ctx, key("s"), []transcript.Span{span(1, int64(len(all)))}) {
				if err != nil {
					damage(key("s"), err)
					continue
				}
				seen[name(m)]++
				if n++; n == 5 {
					_, err := p.store.Trim(p.ctx, key("s"), stay, future)
					ok(err)
				}
			}
			for _, s := range stay {
				for _, text := range all[s.From-1 : s.Through] {
					if seen[text] != 1 {
						fail("a message that stays is yielded %d times: %s", seen[text], text)
					}
				}
			}
		},
	},
	{
		name: "loop-ends",
		rule: "a loop over Read may end early, and the store goes on",
		check: func(p *probe) {
			p.say("a", 2)
			p.say("b", 2)
			for range 20 {
				for _, err := range p.store.Read(p.ctx, key("s"), []transcript.Span{span(1, 4)}) {
					ok(err)
					break
				}
				for _, err := range p.store.Read(p.ctx, key("s"), []transcript.Span{span(7, 9), span(1, 4)}) {
					damage(key("s"), err)
					break
				}
			}
			p.say("c", 1)
			p.wantAll("a.1", "a.2", "b.1", "b.2", "c.1")
			p.trim(key("s"), zero, 5)
		},
	},
	{
		name: "loop-twice",
		rule: "what Read returns may be ranged over again, and yields what is there by then",
		check: func(p *probe) {
			all := p.store.Read(p.ctx, key("s"), []transcript.Span{span(1, 3)})
			for i := range 3 {
				n := 0
				for _, err := range all {
					if err == nil {
						n++
					}
				}
				if n != i {
					fail("%d messages, want %d", n, i)
				}
				p.say(fmt.Sprint("e", i), 1)
			}
		},
	},
}
