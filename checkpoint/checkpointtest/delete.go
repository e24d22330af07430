package checkpointtest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var deleteClauses = []clause{
	{
		name: "delete-fences",
		rule: "Delete under a live lease fences it",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			ok(p.store.Delete(p.ctx, l))
			p.wantFenced(l)
			p.wantTurns("a")
			p.wantSessions(checkpoint.SessionQuery{})
		},
	},
	{
		name: "delete-reborn",
		rule: "after Delete a session starts anew, with a higher epoch and another Born",
		check: func(p *probe) {
			first := p.claim("a")
			ok(p.store.Append(p.ctx, first.Lease, turn(0), checkpoint.AppendOptions{Owes: true}))
			ok(p.store.Mark(p.ctx, first.Lease, checkpoint.Marks{Summarized: 1, Retry: time.Hour}))
			for range 3 {
				ok(p.store.Delete(p.ctx, first.Lease))
				c := p.claim("a")
				if c.Fence.Epoch <= first.Fence.Epoch {
					fail("epoch %d after %d of the deleted session", c.Fence.Epoch, first.Fence.Epoch)
				}
				wantNew(c)
				p.wantFenced(first.Lease)
				p.append(c.Lease, run(0, "new"))
				first = c
			}
			p.wantSessions(checkpoint.SessionQuery{Owing: true})
		},
	},
	{
		name: "delete-others",
		rule: "Delete removes one session",
		check: func(p *probe) {
			p.settled("a", 2)
			p.settled("a_", 2)
			p.settled("a%", 2)
			l := p.claim("a_").Lease
			for range 2 {
				ok(p.store.Delete(p.ctx, l))
			}
			l.Key = checkpoint.Key{Orchestrator: "other", Session: "a"}
			ok(p.store.Delete(p.ctx, l))
			p.wantTurns("a", 1, 0)
			p.wantTurns("a_")
			p.wantTurns("a%", 1, 0)
		},
	},
	{
		name: "delete-fenced",
		rule: "Delete by a lease that is not the latest is ErrFenced and keeps every turn",
		check: func(p *probe) {
			old := p.claim("a").Lease
			p.append(old, turn(0))
			l := p.steal("a").Lease
			ok(p.store.Append(p.ctx, l, turn(1), checkpoint.AppendOptions{Owes: true}))
			for _, fence := range append(strangers(l.Fence), old.Fence) {
				want(p.store.Delete(p.ctx, checkpoint.Lease{Key: l.Key, Fence: fence}), lock.ErrFenced)
			}
			p.wantTurns("a", 1, 0)
			p.wantSessions(checkpoint.SessionQuery{Owing: true}, "a")
			p.append(l, turn(2))
			ok(p.store.Delete(p.ctx, l))
			p.wantTurns("a")
		},
	},
	{
		name: "delete-released",
		rule: "Delete by a released lease is ErrFenced and keeps every turn, also before the next claim",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			p.release(l)
			want(p.store.Delete(p.ctx, l), lock.ErrFenced)
			p.wantTurns("a", 0)
			c := p.claim("a")
			want(p.store.Delete(p.ctx, l), lock.ErrFenced)
			if c.Last == nil || c.Last.Turn != 0 {
				fail("the newest is %s", describe(c.Last))
			}
			p.append(c.Lease, turn(1))
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "delete-expired",
		rule: "an expired lease deletes as long as no claim has taken it",
		check: func(p *probe) {
			for _, session := range []string{"a", "taken"} {
				p.settled(session, 1)
			}
			l, taken := p.expired("a"), p.expired("taken")
			p.claim("taken")
			ok(p.store.Delete(p.ctx, l))
			want(p.store.Delete(p.ctx, taken), lock.ErrFenced)
			p.wantSessions(checkpoint.SessionQuery{}, "taken")
		},
	},
	{
		name: "delete-repeated",
		rule: "Delete of a session that does not exist is no error, so that it may be repeated",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			for range 3 {
				ok(p.store.Delete(p.ctx, l))
				p.wantTurns("a")
			}
			l.Key = key("nobody")
			ok(p.store.Delete(p.ctx, l))
			p.wantSessions(checkpoint.SessionQuery{})
		},
	},
	{
		name: "delete-late",
		rule: "a copy of Delete that arrives late is ErrFenced and spares the session's next life",
		check: func(p *probe) {
			old := p.claim("a").Lease
			p.append(old, turn(0))
			ok(p.store.Delete(p.ctx, old))
			l := p.claim("a").Lease
			want(p.store.Delete(p.ctx, old), lock.ErrFenced)
			p.append(l, run(0, "new"))
			want(p.store.Delete(p.ctx, old), lock.ErrFenced)
			want(p.tryClaim("a"), lock.ErrHeld)
			p.append(l, run(1, "newer"))
			p.wantTurns("a", 1, 0)
			p.release(l)
			want(p.store.Delete(p.ctx, old), lock.ErrFenced)
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "delete-late-race",
		rule: "of two copies of Delete none touches the life that begins when the other has deleted",
		check: func(p *probe) {
			for n := range races {
				old := p.claim("a").Lease
				p.append(old, run(0, fmt.Sprintf("old-%d", n)))
				var l checkpoint.Lease
				var errs [3]error
				mine := run(0, fmt.Sprintf("new-%d", n))
				together(
					func() { errs[0] = p.store.Delete(p.ctx, old) },
					func() {
						if errs[1] = p.store.Delete(p.ctx, old); errs[1] == nil {
							l, errs[1] = p.claimed("a")
						}
						if errs[1] == nil {
							errs[2] = p.tryAppend(l, mine)
						}
					})
				if errs[0] != nil {
					want(errs[0], lock.ErrFenced)
				}
				ok(errs[1])
				ok(errs[2])
				if cps := p.turns("a", checkpoint.Newest); len(cps) != 1 || cps[0].RunID != mine.RunID {
					fail("%d turns are left, want %s", len(cps), mine.RunID)
				}
				ok(p.store.Delete(p.ctx, l))
			}
		},
	},
	{
		name: "delete-steal-race",
		rule: "of a Delete and a claim From its fence one succeeds: the session is gone, or it is the new owner's",
		check: func(p *probe) {
			for n := range races {
				l := p.claim("a").Lease
				p.append(l, run(0, fmt.Sprintf("r%d", n)))
				var c checkpoint.Claimed
				var deleted, claimed error
				together(
					func() { deleted = p.store.Delete(p.ctx, l) },
					func() { c, claimed = p.store.Claim(p.ctx, key("a"), from(l.Fence)) })
				if deleted == nil {
					want(claimed, lock.ErrHeld)
					p.wantTurns("a")
					continue
				}
				want(deleted, lock.ErrFenced)
				ok(claimed)
				p.wantTurns("a", 0)
				ok(p.store.Delete(p.ctx, c.Lease))
			}
		},
	},
}

// claimed claims a free session and returns the lease.
func (p *probe) claimed(session string) (checkpoint.Lease, error) {
	c, err := p.store.Claim(p.ctx, key(session), request(time.Hour))
	return c.Lease, err
}
