package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A DamagingStore can damage a session, as a hand in the database or a lost block of its disk does. Only the tests of a
// backend know how.
type DamagingStore interface {
	checkpoint.Store

	// DamageHead damages the head of a session, so that no store can have written it.
	DamageHead(ctx context.Context, k checkpoint.Key) error

	// LoseHead removes the head of a session, and leaves the turns.
	LoseHead(ctx context.Context, k checkpoint.Key) error

	// DamageTurn damages a stored turn, so that no store can have written it.
	DamageTurn(ctx context.Context, k checkpoint.Key, turn int) error
}

// RunDamaged checks the clauses about damaged sessions and turns. newStore must return an empty store each time it is
// called.
func RunDamaged(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	damageContract().Run(t, newStore)
}

func damageContract() suite.Clauses[DamagingStore] {
	return suite.Of(slices.Concat(damageClauses, headDamageClauses), clauseOn[DamagingStore].bound)
}

var damageClauses = []clauseOn[DamagingStore]{
	{
		name: "sessions",
		rule: "Sessions yields a session with a damaged head, with a *DamagedError if it read the head, and goes on",
		check: func(p *probe, s DamagingStore) {
			var all []string
			for i := range 60 {
				all = append(all, fmt.Sprintf("s%02d", i))
				l := p.claim(all[i]).Lease
				p.settle(l, 0, 1, checkpoint.AppendOptions{Owes: true, Release: true})
			}
			for _, i := range []int{0, 7, 49, 50, 59} {
				ok(s.DamageHead(p.ctx, key(all[i])))
			}
			for _, q := range []checkpoint.SessionQuery{{}, {Owing: true}, {Owing: true, Due: true}, {Prefix: "s"}} {
				p.wantListed(q, all)
			}
			p.wantListed(checkpoint.SessionQuery{After: all[5], Limit: 4}, all[6:10])
			p.wantListed(checkpoint.SessionQuery{After: all[6], Limit: 1, Owing: true}, all[7:8])
		},
	},
	{
		name: "held-damaged",
		rule: "Held leaves a session out whose head is damaged, and answers for the others",
		check: func(p *probe, s DamagingStore) {
			for _, id := range []string{"a", "b", "c"} {
				p.settle(p.claim(id).Lease, 0, 1, checkpoint.AppendOptions{Release: true})
			}
			p.claim("c")
			ok(s.DamageHead(p.ctx, key("b")))
			held, err := s.Held(p.ctx, bot, []string{"a", "b", "c"})
			if ok(err); len(held) != 1 || held["c"] == "" {
				fail("held are %q", held)
			}
		},
	},
	{
		name: "renew-damaged",
		rule: "a damaged head keeps no other lease from being renewed; if its own is not, Renew names it",
		check: func(p *probe, s DamagingStore) {
			f := p.leased(12)
			for _, i := range []int{0, 5} {
				ok(s.DamageHead(p.ctx, key(f.all[i])))
			}
			lost, err := s.Renew(p.ctx, 2*time.Hour, f.leases)
			var unknown []string
			if partial, is := errors.AsType[*checkpoint.RenewError](err); is {
				for _, l := range partial.Unknown {
					unknown = append(unknown, l.Session)
				}
			} else {
				ok(err)
			}
			if slices.ContainsFunc(unknown, func(id string) bool { return id != f.all[0] && id != f.all[5] }) {
				fail("%q are unknown, want only what is damaged", unknown)
			}
			f.judge(lost, err, unknown)
			ofInspector(func(p *probe) { f.wantExtended(p, []string{f.all[0], f.all[5]}) })(p)
		},
	},
	{
		name: "sessions-headless",
		rule: "a head that is missing hides no other session",
		check: func(p *probe, s DamagingStore) {
			for _, id := range []string{"a", "b", "c"} {
				p.settle(p.claim(id).Lease, 0, 1, checkpoint.AppendOptions{Owes: true})
			}
			ok(s.LoseHead(p.ctx, key("b")))
			for _, owing := range []bool{false, true} {
				got := p.listed(checkpoint.SessionQuery{Owing: owing})
				if !slices.Contains(got, "a") || !slices.Contains(got, "c") {
					fail("sessions %q, want a and c among them", got)
				}
			}
		},
	},
	{
		name: "turns",
		rule: "Turns yields the number of a damaged turn with a *DamagedError, and goes on",
		check: func(p *probe, s DamagingStore) {
			p.settled("a", 30)
			p.settled("b", 1)
			bad := []int{29, 17, 16, 3, 0}
			for _, n := range bad {
				ok(s.DamageTurn(p.ctx, key("a"), n))
			}
			n := 29
			for cp, err := range p.store.Turns(p.ctx, key("a"), checkpoint.Newest) {
				switch {
				case cp.Turn != n:
					fail("turn %d is yielded, %v; want turn %d", cp.Turn, err, n)
				case slices.Contains(bad, n):
					wantDamage(err, "a")
				default:
					ok(err)
					ok(sameCheckpoint(cp, turn(n)))
				}
				n--
			}
			if n >= 0 {
				fail("turn %d is not yielded", n)
			}
			_, err := checkpoint.Load(p.ctx, p.store, key("a"), 3)
			wantDamage(err, "a")
			p.wantTurns("b", 0)
		},
	},
	{
		name: "claim-headless",
		rule: "if turns are kept without a head, each Claim is a *DamagedError, and hides no turn behind a new session",
		check: func(p *probe, s DamagingStore) {
			p.settled("a", 3)
			ok(s.LoseHead(p.ctx, key("a")))
			for range 3 {
				p.wantDamagedClaim("a")
			}
			p.claim("b")
		},
	},
	{
		name: "headless-owner",
		rule: "the owner whose head is lost settles nothing more",
		check: func(p *probe, s DamagingStore) {
			l := p.claim("a").Lease
			p.append(l, turn(0))
			ok(s.LoseHead(p.ctx, key("a")))
			for _, cp := range []checkpoint.Checkpoint{turn(1), run(0, "another")} {
				if err := p.tryAppend(l, cp); err == nil {
					fail("turn %d is settled", cp.Turn)
				}
			}
			p.wantDamagedClaim("a")
		},
	},
	{
		name:  "delete-headless",
		rule:  "Delete under the lease that came with the error removes turns without a head: the session starts anew",
		check: func(p *probe, s DamagingStore) { p.heals(s, func() { ok(s.LoseHead(p.ctx, key("a"))) }) },
	},
	{
		name:  "delete-damaged-head",
		rule:  "Delete under the lease that came with the error removes a session whose head is damaged",
		check: func(p *probe, s DamagingStore) { p.heals(s, func() { ok(s.DamageHead(p.ctx, key("a"))) }) },
	},
	{
		name:  "delete-damaged-turn",
		rule:  "Delete under the lease that came with the error removes a session whose newest turn is damaged",
		check: func(p *probe, s DamagingStore) { p.heals(s, func() { ok(s.DamageTurn(p.ctx, key("a"), 2)) }) },
	},
}

// heals damages the session a, which has settled three turns. It shows that a can be deleted, and that no other session
// goes with it.
func (p *probe) heals(s DamagingStore, damage func()) {
	before := p.claim("a").Lease
	p.settle(before, 0, 3, checkpoint.AppendOptions{Owes: true})
	p.release(before)
	p.settled("b", 2)
	damage()
	l := p.wantDamagedClaim("a")
	ok(s.Delete(p.ctx, l))
	ok(s.Delete(p.ctx, l))
	c := p.claim("a")
	if wantNew(c); c.Fence.Epoch <= before.Fence.Epoch {
		fail("epoch %d follows %d", c.Fence.Epoch, before.Fence.Epoch)
	}
	p.wantTurns("a")
	p.append(c.Lease, turn(0))
	p.wantTurns("a", 0)
	p.wantTurns("b", 1, 0)
	p.wantSessions(checkpoint.SessionQuery{}, "a", "b")
	p.wantSessions(checkpoint.SessionQuery{Owing: true})
}

// wantDamagedClaim shows that the session cannot be claimed, and returns the lease for its deletion.
func (p *probe) wantDamagedClaim(session string) checkpoint.Lease {
	r := request(time.Hour)
	c, err := p.store.Claim(p.ctx, key(session), r)
	wantDamage(err, session)
	if c.Key != key(session) || c.Fence.Nonce == "" || c.Last != nil {
		fail("a claim of what is damaged returns %+v, want a lease", c)
	}
	return c.Lease
}

// listed returns the sessions of q, damaged or not.
func (p *probe) listed(q checkpoint.SessionQuery) (ids []string) {
	q.Orchestrator = bot
	for id, err := range p.store.Sessions(p.ctx, q) {
		if err != nil {
			wantDamage(err, id)
		}
		ids = append(ids, id)
	}
	return ids
}

func (p *probe) wantListed(q checkpoint.SessionQuery, want []string) {
	if got := p.listed(q); !slices.Equal(got, want) {
		fail("sessions of %+v are %q, want %q", q, got, want)
	}
}

// wantDamage shows that err is about one session, and says which.
func wantDamage(err error, session string) {
	damage, is := errors.AsType[*checkpoint.DamagedError](err)
	if !is || !errors.Is(err, checkpoint.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.Key != key(session) || damage.Reason == "" {
		fail("the error names %+v because of %q, want session %q and a reason", damage.Key, damage.Reason, session)
	}
}
