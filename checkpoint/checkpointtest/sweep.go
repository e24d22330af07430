package checkpointtest

import (
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

type sweepClause struct {
	name  string
	rule  string
	ttl   time.Duration
	check func(p *probe, s SweepingStore)
}

var sweepClauses = []sweepClause{
	{
		name: "idle",
		rule: "a session that has been idle for the TTL is retired whole, also one that never settled a turn",
		ttl:  time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			born := p.claim("a")
			ok(s.Append(p.ctx, born.Lease, turn(0), checkpoint.AppendOptions{Release: true}))
			p.release(p.claim("never settled").Lease)
			p.sweep(s, 2)
			p.wantTurns("a")
			p.wantSessions(checkpoint.SessionQuery{})
			ofInspector(func(p *probe) { p.wantNoHead("a") })(p)
			c := p.claim("a")
			if c.Born == born.Born || c.Last != nil {
				fail("claimed %+v after %+v was retired", c, born)
			}
		},
	},
	{
		name: "labels-retired",
		rule: "the labels of a session are retired with it, and its next life has none",
		ttl:  time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			p.release(p.labeled("a", label("wait", soon), label("x", never)))
			p.sweep(s, 1)
			p.wantLabeled("wait")
			p.wantBy("wait", late)
			p.settled("a", 1)
			p.wantLabeled("wait")
			p.wantBy("wait", late)
			p.wantLabeled("x")
		},
	},
	{
		name: "owned",
		rule: "a session under a live lease stays",
		ttl:  time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			l := p.claim("owned").Lease
			p.append(l, turn(0))
			p.settled("idle", 1)
			p.sweep(s, 1)
			p.append(l, turn(1))
			p.wantSessions(checkpoint.SessionQuery{}, "owned")
		},
	},
	{
		name: "owing",
		rule: "a session that owes a reply stays until it is delivered",
		ttl:  time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			l := p.claim("owing").Lease
			ok(s.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Owes: true, Release: true}))
			p.settled("idle", 1)
			p.sweep(s, 1)
			p.wantTurns("owing", 0)
			l = p.claim("owing").Lease
			ok(s.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1, Release: true}))
			p.sweep(s, 1)
			p.wantTurns("owing")
		},
	},
	{
		name: "active",
		rule: "a settle or a mark makes the session as young as a claim would, also after the lease expired",
		ttl:  100 * time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			l := p.claimAs("active", request(time.Millisecond)).Lease
			ok(s.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Owes: true}))
			p.settled("idle", 1)
			// The lease of the active session is older than the lease of the session that is retired here.
			for n := 0; n == 0; {
				var err error
				n, err = s.Sweep(p.ctx, 0)
				ok(err)
			}
			marked := time.Now()
			ok(s.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1}))
			n, err := s.Sweep(p.ctx, 0)
			if ok(err); n > 0 && time.Since(marked) < 100*time.Millisecond {
				fail("a session was retired %v after a mark", time.Since(marked))
			}
		},
	},
	{
		name: "limit",
		rule: "limit bounds how many are retired at once, and nothing is retired twice",
		ttl:  time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			for _, id := range []string{"a", "b", "c", "d", "e"} {
				p.settled(id, 2)
			}
			left := 5
			for left > 0 {
				n, err := s.Sweep(p.ctx, 2)
				if ok(err); n > 2 || n > left {
					fail("retired %d of %d with limit 2", n, left)
				}
				left -= n
				if got := len(p.sessions(checkpoint.SessionQuery{})); got != left {
					fail("%d sessions are left, want %d", got, left)
				}
			}
		},
	},
	{
		name: "no-ttl",
		rule: "without a TTL sessions stay",
		check: func(p *probe, s SweepingStore) {
			p.settled("a", 1)
			n, err := s.Sweep(p.ctx, 0)
			if ok(err); n != 0 {
				fail("retired %d", n)
			}
			p.wantTurns("a", 0)
		},
	},
}

// sweep retires until exactly want sessions are gone.
func (p *probe) sweep(s SweepingStore, want int) {
	for left := want; left > 0; {
		n, err := s.Sweep(p.ctx, 0)
		if ok(err); n > left {
			fail("retired %d sessions, want %d", want-left+n, want)
		}
		left -= n
	}
	n, err := s.Sweep(p.ctx, 0)
	if ok(err); n != 0 {
		fail("retired %d sessions, want %d", want+n, want)
	}
}
