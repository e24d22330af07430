package checkpointtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

// RaisingStore is a store whose owners can all be ended at once.
type RaisingStore interface {
	checkpoint.Store
	lock.Raiser
}

// RunRaiser checks the clauses of [lock.Raiser]. newStore must return an empty store each time it is called.
func RunRaiser(t *testing.T, newStore func(t *testing.T) RaisingStore) {
	raiseContract().Run(t, newStore)
}

func raiseContract() suite.Clauses[RaisingStore] {
	return suite.Of(raiseClauses, clauseOn[RaisingStore].bound)
}

var raiseClauses = []clauseOn[RaisingStore]{
	{
		name: "raise",
		rule: "after Raise no owner of before settles, marks, renews or deletes, whatever is left of its lease",
		check: func(p *probe, s RaisingStore) {
			live, over := p.claim("live").Lease, p.expired("over")
			p.append(live, turn(0))
			p.raise(s, time.Now(), 2)
			for i, l := range []checkpoint.Lease{live, over} {
				want(p.tryAppend(l, turn(1-i)), lock.ErrFenced)
				want(s.Mark(p.ctx, l, checkpoint.Marks{Summarized: 1}), lock.ErrFenced)
				want(s.Delete(p.ctx, l), lock.ErrFenced)
			}
			lost, err := s.Renew(p.ctx, time.Hour, []checkpoint.Lease{live, over})
			if ok(err); len(lost) != 2 {
				fail("%d of 2 leases are lost", len(lost))
			}
			p.wantTurns("live", 0)
		},
	},
	{
		name: "raise-frees",
		rule: "after Raise each session is free, and its next owner has a higher epoch and all that was settled",
		check: func(p *probe, s RaisingStore) {
			c := p.claim("a")
			o := relabel(label("wait", soon))
			o.Owes = true
			ok(s.Append(p.ctx, c.Lease, turn(0), o))
			p.raise(s, time.Now(), 1)
			p.wantLabeled("wait", "a")
			p.wantBy("wait", soon, "a")
			next := p.claim("a")
			if next.Fence.Epoch <= c.Fence.Epoch || next.Born != c.Born || next.Last == nil || next.Delivered != 0 {
				fail("claimed %+v after %+v", next, c)
			}
			p.append(next.Lease, turn(1))
			p.wantTurns("a", 1, 0)
		},
	},
	{
		name: "raise-late-claim",
		rule: "after Raise a copy of a Claim of before does not bring its fence back",
		check: func(p *probe, s RaisingStore) {
			r := request(time.Hour)
			c := p.claimAs("a", r)
			p.raise(s, time.Time{}, 1)
			if late, err := s.Claim(p.ctx, key("a"), r); err == nil && late.Fence.Epoch <= c.Fence.Epoch {
				fail("the epoch is %d, and was %d", late.Fence.Epoch, c.Fence.Epoch)
			}
			want(p.tryAppend(c.Lease, turn(0)), lock.ErrFenced)
		},
	},
	{
		name: "raise-again",
		rule: "Raise may be repeated, counts the sessions that had an owner, and spares none that was claimed since",
		check: func(p *probe, s RaisingStore) {
			p.raise(s, time.Now(), 0)
			p.settled("released", 1)
			p.claim("a")
			p.raise(s, time.Now().Add(-time.Hour), 1)
			p.raise(s, time.Now().Add(time.Hour), 0)
			l := p.claim("a").Lease
			p.raise(s, time.Time{}, 1)
			want(p.tryAppend(l, turn(0)), lock.ErrFenced)
			p.append(p.claim("a").Lease, turn(0))
		},
	},
	{
		name: "raise-all",
		rule: "Raise ends the owners of all orchestrators, however many sessions they have",
		check: func(p *probe, s RaisingStore) {
			var leases []checkpoint.Lease
			for _, o := range []string{bot, "other", "{%/"} {
				for _, session := range []string{"a", "b", "}:session", "naïve\n"} {
					c, err := s.Claim(p.ctx, checkpoint.Key{Orchestrator: o, Session: session}, request(time.Hour))
					ok(err)
					leases = append(leases, c.Lease)
				}
			}
			p.raise(s, time.Now(), len(leases))
			for _, l := range leases {
				want(p.tryAppend(l, turn(0)), lock.ErrFenced)
			}
		},
	},
	{
		name: "raise-cancelled",
		rule: "Raise with a ctx that is done returns its cause, and changes nothing",
		check: func(p *probe, s RaisingStore) {
			l := p.claim("a").Lease
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, err := s.Raise(ctx, time.Now())
			want(err, reason)
			p.append(l, turn(0))
		},
	},
}

// raise ends all owners, of which there are ended.
func (p *probe) raise(s RaisingStore, lost time.Time, ended int) {
	n, err := s.Raise(p.ctx, lost)
	if ok(err); n != ended {
		fail("Raise has ended %d owners, want %d", n, ended)
	}
}
