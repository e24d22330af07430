package checkpointtest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// RunUnsettled checks the clauses of [checkpoint.Sweeper] about sessions that have settled nothing. newStore must
// return an empty store without a TTL, in which such a session is idle after the given time.
func RunUnsettled(t *testing.T, newStore func(t *testing.T, unsettled time.Duration) SweepingStore) {
	unsettledContract().Run(t, forTest(newStore))
}

func unsettledContract() suite.Clauses[opener] {
	return suite.Of(unsettledClauses, func(c unsettledClause) suite.Clause[opener] {
		return suite.With(c.unsettled, clauseOn[SweepingStore]{c.name, c.rule, c.check}.bound())
	})
}

type unsettledClause struct {
	name      string
	rule      string
	unsettled time.Duration
	check     func(p *probe, s SweepingStore)
}

var unsettledClauses = []unsettledClause{
	{
		name:      "unsettled-retired",
		rule:      "a session that settled nothing is retired, released or expired; one with a settled turn stays",
		unsettled: time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			p.settled("settled", 1) // first, so that it is idle for as long as the others
			released := p.claim("released")
			p.release(released.Lease)
			expired := p.expired("expired")
			p.sweep(s, 2)
			p.wantTurns("settled", 0)
			p.wantSessions(checkpoint.SessionQuery{}, "settled")
			for _, old := range []checkpoint.Lease{released.Lease, expired} {
				c := p.claim(old.Session)
				if c.Fence.Epoch <= old.Fence.Epoch {
					fail("epoch %d after %d of the session that was retired", c.Fence.Epoch, old.Fence.Epoch)
				}
				wantNew(c)
			}
		},
	},
	{
		name:      "unsettled-fenced",
		rule:      "a lease of a session that was retired is fenced, before and after the next claim",
		unsettled: time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			old := p.expired("a")
			p.sweep(s, 1)
			p.wantFenced(old)
			p.wantHeld("a", from(old.Fence), unowned)
			l := p.claim("a").Lease
			p.wantFenced(old)
			p.wantHeld("a", from(old.Fence), owner(l))
			p.append(l, turn(0))
			p.wantTurns("a", 0)
		},
	},
	{
		name:      "unsettled-owned",
		rule:      "a session under a live lease stays, also if that was claimed again or renewed",
		unsettled: time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			owned := p.claim("owned")
			again := p.claim("again")
			p.release(again.Lease)
			again = p.claim("again")
			renewed := p.claimAs("renewed", request(time.Minute)).Lease
			_, err := s.Renew(p.ctx, time.Hour, []checkpoint.Lease{renewed})
			ok(err)
			p.release(p.claim("idle").Lease)
			p.sweep(s, 1)
			for _, l := range []checkpoint.Lease{owned.Lease, again.Lease, renewed} {
				p.append(l, turn(0))
			}
		},
	},
	{
		name:      "unsettled-young",
		rule:      "a session that settled nothing stays until it has been idle for long enough",
		unsettled: time.Hour,
		check: func(p *probe, s SweepingStore) {
			born := p.claim("released")
			p.release(born.Lease)
			expired := p.expired("expired")
			p.sweep(s, 0)
			if c := p.claim("released"); c.Born != born.Born {
				fail("a session of %d was retired at once", born.Born)
			}
			p.append(expired, turn(0))
		},
	},
	{
		name:      "unsettled-negative",
		rule:      "a negative time means the default: a session that is owned, or was just now, stays",
		unsettled: -time.Hour,
		check: func(p *probe, s SweepingStore) {
			owned := p.claim("owned").Lease
			born := p.claim("released")
			p.release(born.Lease)
			p.sweep(s, 0)
			p.append(owned, turn(0))
			if c := p.claim("released"); c.Born != born.Born {
				fail("a session of %d was retired at once", born.Born)
			}
		},
	},
	{
		name:      "unsettled-born",
		rule:      "after a session was retired, its owner may give it the Born that it had",
		unsettled: time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			old := p.expired("a")
			p.sweep(s, 1)
			r := from(p.claim("a").Fence)
			r.Born = old.Fence.Epoch
			c := p.claimAs("a", r)
			if c.Born != old.Fence.Epoch {
				fail("born at %d, want %d", c.Born, old.Fence.Epoch)
			}
			p.wantFenced(old)
			p.append(c.Lease, turn(0))
		},
	},
}
