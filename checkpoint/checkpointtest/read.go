package checkpointtest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

var readClauses = []clause{
	{
		name: "turns",
		rule: "Turns yields the kept turns from turn downwards",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 60, checkpoint.AppendOptions{Keep: 40})
			for from, want := range map[int][2]int{
				checkpoint.Newest: {59, 40}, 59: {59, 40}, 1000: {59, 40}, 42: {42, 23}, 20: {20, 1},
				19: {0, 0}, 0: {0, 0}, -1: {0, 0},
			} {
				got := p.turns("a", from)
				if len(got) != want[1] {
					fail("%d turns from %d, want %d", len(got), from, want[1])
				}
				for i, cp := range got {
					if cp.Turn != want[0]-i {
						fail("turn %d follows, want %d", cp.Turn, want[0]-i)
					}
					ok(sameCheckpoint(cp, turn(cp.Turn)))
				}
			}
			if got := p.turns("nobody", checkpoint.Newest); len(got) > 0 {
				fail("turns of nobody: %+v", got)
			}
		},
	},
	{
		name: "load",
		rule: "Load returns one turn or ErrNotFound",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 5, checkpoint.AppendOptions{Keep: 3})
			for at, want := range map[int]int{checkpoint.Newest: 4, 4: 4, 2: 2} {
				cp, err := checkpoint.Load(p.ctx, p.store, key("a"), at)
				if ok(err); cp.Turn != want {
					fail("loaded turn %d, want %d", cp.Turn, want)
				}
			}
			for _, at := range []int{1, 0, -1, 5} {
				_, err := checkpoint.Load(p.ctx, p.store, key("a"), at)
				want(err, checkpoint.ErrNotFound)
			}
			_, err := checkpoint.Load(p.ctx, p.store, key("nobody"), checkpoint.Newest)
			want(err, checkpoint.ErrNotFound)
		},
	},
	{
		name: "sessions",
		rule: "Sessions yields each session that has a settled turn once, in byte order",
		check: func(p *probe) {
			ids := []string{"b", "a", "a/1", "Z", "é", "\uffff", "😀", "aa", "~", " "}
			for _, id := range ids {
				p.settled(id, 2)
			}
			p.claim("claimed only")
			p.settled("deleted", 1)
			p.bury("deleted")
			slices.Sort(ids)
			p.wantSessions(checkpoint.SessionQuery{}, ids...)
		},
	},
	{
		name: "sessions-prefix",
		rule: "a prefix is literal: no character in it is a pattern",
		check: func(p *probe) {
			ids := []string{
				"a_1", "a%1", "ab1", `a\1`, "a*1", "a?1", "a[1", "a]1",
				"a\U0010ffff", "a\U0010ffff1", "a\ud7ff", "a\ue000", "A_1",
			}
			for _, id := range ids {
				p.settled(id, 1)
			}
			for _, prefix := range []string{
				"a_", "a%", "a*", "a?", "a[", `a\`, "a\U0010ffff", "a\ud7ff", "\U0010ffff",
				"ab1", "ab12", "a_%", "*", "%",
			} {
				want := []string{}
				for _, id := range ids {
					if len(id) >= len(prefix) && id[:len(prefix)] == prefix {
						want = append(want, id)
					}
				}
				slices.Sort(want)
				p.wantSessions(checkpoint.SessionQuery{Prefix: prefix}, want...)
			}
		},
	},
	{
		name: "sessions-page",
		rule: "After and Limit page through the sessions without a gap or a repeat",
		check: func(p *probe) {
			var all []string
			for i := range 12 {
				id := fmt.Sprintf("s%02d", i)
				p.settled(id, 1)
				all = append(all, id)
			}
			p.settled("t", 1)
			var got []string
			for after := ""; ; {
				page := p.sessions(checkpoint.SessionQuery{Prefix: "s", After: after, Limit: 5})
				if len(page) == 0 {
					break
				}
				if len(page) > 5 {
					fail("a page of %d", len(page))
				}
				got = append(got, page...)
				after = page[len(page)-1]
			}
			if !reflect.DeepEqual(got, all) {
				fail("pages hold %q, want %q", got, all)
			}
			p.wantSessions(checkpoint.SessionQuery{After: "s11"}, "t")
			p.wantSessions(checkpoint.SessionQuery{After: "s10x"}, "s11", "t")
			p.wantSessions(checkpoint.SessionQuery{Prefix: "s", After: "t"})
			p.wantSessions(checkpoint.SessionQuery{Prefix: "s1", After: "a"}, "s10", "s11")
		},
	},
	{
		name: "sessions-orchestrator",
		rule: "Sessions yields those of one orchestrator",
		check: func(p *probe) {
			p.settled("a", 1)
			other := checkpoint.Key{Orchestrator: bot + "2", Session: "b"}
			c, err := p.store.Claim(p.ctx, other, request(time.Second))
			ok(err)
			ok(p.store.Append(p.ctx, c.Lease, turn(0), checkpoint.AppendOptions{Owes: true}))
			p.wantSessions(checkpoint.SessionQuery{}, "a")
			p.wantSessions(checkpoint.SessionQuery{Owing: true})
		},
	},
	{
		name: "sessions-owing",
		rule: "Owing selects the sessions with turns to deliver, and pages like the others",
		check: func(p *probe) {
			for i := range 6 {
				l := p.claim(fmt.Sprintf("s%d", i)).Lease
				p.settle(l, 0, 2, checkpoint.AppendOptions{Owes: i%2 == 0})
			}
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "s0", "s2", "s4")
			p.wantSessions(checkpoint.SessionQuery{Owing: true, Limit: 1, After: "s0"}, "s2")
			p.wantSessions(checkpoint.SessionQuery{Owing: true, Prefix: "s4"}, "s4")
			p.bury("s2")
			l := p.steal("s4").Lease
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 2, Release: true}))
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "s0")
		},
	},
	{
		name: "sessions-one",
		rule: "Session selects one session by its whole name, if the rest of the query selects it too",
		check: func(p *probe) {
			for i, id := range []string{"a", "a%", "a1", "b"} {
				l := p.claim(id).Lease
				p.settle(l, 0, 1, checkpoint.AppendOptions{Owes: i%2 == 0})
				if id == "a1" {
					ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: time.Hour}))
				}
			}
			p.claim("claimed")
			for _, c := range []struct {
				q    checkpoint.SessionQuery
				want []string
			}{
				{checkpoint.SessionQuery{Session: "a"}, []string{"a"}},
				{checkpoint.SessionQuery{Session: "a", Limit: 1}, []string{"a"}},
				{checkpoint.SessionQuery{Session: "a%"}, []string{"a%"}},
				{checkpoint.SessionQuery{Session: "claimed"}, nil},
				{checkpoint.SessionQuery{Session: "nobody"}, nil},
				{checkpoint.SessionQuery{Session: "a", Owing: true}, []string{"a"}},
				{checkpoint.SessionQuery{Session: "a", Owing: true, Due: true}, []string{"a"}},
				{checkpoint.SessionQuery{Session: "a%", Owing: true}, nil},
				{checkpoint.SessionQuery{Session: "a1", Owing: true}, []string{"a1"}},
				{checkpoint.SessionQuery{Session: "a1", Owing: true, Due: true}, nil},
				{checkpoint.SessionQuery{Session: "a1", Owing: true, HeldBack: time.Minute}, []string{"a1"}},
				{checkpoint.SessionQuery{Session: "a", Owing: true, HeldBack: time.Minute}, nil},
			} {
				p.wantSessions(c.q, c.want...)
			}
		},
	},
	{
		name: "reads-invalid",
		rule: "a read of a name or with bounds that no store takes yields ErrInvalid and ends",
		check: func(p *probe) {
			n := 0
			for _, err := range p.store.Turns(p.ctx, key(""), checkpoint.Newest) {
				want(err, checkpoint.ErrInvalid)
				n++
			}
			for _, q := range []checkpoint.SessionQuery{
				{},
				{Orchestrator: "\xff"},
				{Orchestrator: bot, Limit: -1},
				{Orchestrator: bot, Prefix: "\xff"},
				{Orchestrator: bot, After: "a\x00"},
				{Orchestrator: bot, Due: true},
				{Orchestrator: bot, HeldBack: time.Hour},
				{Orchestrator: bot, HeldBack: time.Hour, Owing: true, Due: true},
				{Orchestrator: bot, HeldBack: -1, Owing: true},
				{Orchestrator: bot, Session: "a\x00"},
				{Orchestrator: bot, Session: "a", Prefix: "a"},
				{Orchestrator: bot, Session: "a", After: "A"},
			} {
				for _, err := range p.store.Sessions(p.ctx, q) {
					want(err, checkpoint.ErrInvalid)
					n++
				}
			}
			if n != 13 {
				fail("%d errors, want 13", n)
			}
		},
	},
	{
		name: "sequences-reentrant",
		rule: "the loop over a sequence may call the store, also where it has but one connection, and may end early",
		check: func(p *probe) {
			for _, id := range []string{"a", "b", "c"} {
				p.settled(id, 3)
			}
			for id, err := range p.store.Sessions(p.ctx, checkpoint.SessionQuery{Orchestrator: bot}) {
				ok(err)
				for cp, err := range p.store.Turns(p.ctx, key(id), checkpoint.Newest) {
					ok(err)
					if cp.Turn == 1 {
						break
					}
					c := p.claim(id)
					p.append(c.Lease, turn(c.Last.Turn+1))
					p.release(c.Lease)
				}
			}
			for _, id := range p.sessions(checkpoint.SessionQuery{}) {
				p.wantTurns(id, 3, 2, 1, 0)
			}
		},
	},
	{
		name: "sequences-end",
		rule: "a sequence yields nothing more after the loop has ended",
		check: func(p *probe) {
			for _, id := range []string{"a", "b", "c"} {
				p.settle(p.claim(id).Lease, 0, 3, checkpoint.AppendOptions{Owes: true})
			}
			yielded := 0
			for _, q := range []checkpoint.SessionQuery{{}, {Owing: true}} {
				q.Orchestrator = bot
				p.store.Sessions(p.ctx, q)(func(string, error) bool { yielded++; return false })
			}
			p.store.Turns(p.ctx, key("a"), checkpoint.Newest)(func(checkpoint.Checkpoint, error) bool {
				yielded++
				return false
			})
			if yielded != 3 {
				fail("%d values, want one of each sequence", yielded)
			}
		},
	},
	{
		name: "sequences-twice",
		rule: "a sequence may be ranged over again, and reads anew",
		check: func(p *probe) {
			l := p.claim("a").Lease
			sessions := p.store.Sessions(p.ctx, checkpoint.SessionQuery{Orchestrator: bot})
			turns := p.store.Turns(p.ctx, key("a"), checkpoint.Newest)
			for n := range 3 {
				p.append(l, turn(n))
				var err error
				counted := 0
				for _, e := range turns {
					err = errors.Join(err, e)
					counted++
				}
				for _, e := range sessions {
					err = errors.Join(err, e)
				}
				if ok(err); counted != n+1 {
					fail("%d turns, want %d", counted, n+1)
				}
			}
		},
	},
}
