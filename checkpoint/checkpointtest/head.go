package checkpointtest

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

// headClauses are about a store that is an Inspector. No other store breaks them.
var headClauses = []clause{
	{
		name: "head-unknown",
		rule: "Head of a session that was never claimed is ErrNotFound, and makes no session",
		check: ofInspector(func(p *probe) {
			p.claim("b")
			for range 2 {
				p.wantNoHead("a")
			}
			wantNew(p.claim("a"))
		}),
	},
	{
		name: "head-claimed",
		rule: "a session that has settled nothing has a head with its owner, turn -1 and no turn that is owed",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: -1})
			p.release(l)
			p.wantHead("a", checkpoint.Head{Turn: -1})
		}),
	},
	{
		name: "head-settled",
		rule: "Head returns the newest settled turn and how far the session is summarized",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			p.settled("b", 7)
			for n := range 4 {
				p.append(l, turn(n))
				p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: n, Summarized: n})
				ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Summarized: n + 1}))
				p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: n, Summarized: n + 1})
			}
		}),
	},
	{
		name: "head-lease",
		rule: "Head returns who owns the session, and for how much longer its lease is live",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: -1})
			r := from(l.Fence)
			r.Owner, r.TTL = "thief", 3*time.Hour
			c := p.claimAs("a", r)
			p.wantLease("a", "thief", 3*time.Hour)
			lost, err := p.store.Renew(p.ctx, 5*time.Hour, []checkpoint.Lease{l, c.Lease})
			if ok(err); len(lost) != 1 {
				fail("lost %v, want one lease", lost)
			}
			p.wantLease("a", "thief", 5*time.Hour)
		}),
	},
	{
		name: "head-released",
		rule: "a released session has no owner, whether a mark or a settle has released it",
		check: ofInspector(func(p *probe) {
			p.settled("a", 1)
			p.wantHead("a", checkpoint.Head{Turn: 0})
			ok(p.store.Append(p.ctx, p.claim("a").Lease, turn(1), checkpoint.AppendOptions{Release: true}))
			p.wantHead("a", checkpoint.Head{Turn: 1})
		}),
	},
	{
		name: "head-expired",
		rule: "a session has no owner while no lease is live, and one again when its owner has renewed",
		check: ofInspector(func(p *probe) {
			p.settled("a", 2)
			l := p.expired("a")
			p.wantHead("a", checkpoint.Head{Turn: 1})
			lost, err := p.store.Renew(p.ctx, time.Hour, []checkpoint.Lease{l})
			if ok(err); len(lost) > 0 {
				fail("lost %v", lost)
			}
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: 1})
		}),
	},
	{
		name: "head-owed",
		rule: "Owed counts the oldest turn that is not delivered, and all turns after it",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			owed := func(last, owed int) {
				p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: last, Owed: owed})
			}
			p.append(l, turn(0))
			owed(0, 0)
			ok(p.store.Append(p.ctx, l, turn(1), checkpoint.AppendOptions{Owes: true}))
			owed(1, 1)
			p.append(l, turn(2))
			owed(2, 2)
			ok(p.store.Append(p.ctx, l, turn(3), checkpoint.AppendOptions{Owes: true}))
			owed(3, 3)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: time.Hour}))
			owed(3, 3)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 3}))
			owed(3, 1)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 4}))
			owed(3, 0)
			ok(p.store.Append(p.ctx, l, turn(4), checkpoint.AppendOptions{Owes: true}))
			owed(4, 1)
		}),
	},
	{
		name: "head-pruned",
		rule: "First is the oldest kept turn, also where a turn is kept because it is owed",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 5, checkpoint.AppendOptions{Keep: 2})
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: 4, First: 3})
			p.settle(l, 5, 9, checkpoint.AppendOptions{Keep: 2, Owes: true})
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: 8, First: 5, Owed: 4})
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 9}))
			p.settle(l, 9, 10, checkpoint.AppendOptions{Keep: 1})
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: 9, First: 9})
			p.wantTurns("a", 9)
		}),
	},
	{
		name: "head-deleted",
		rule: "Head of a deleted session is ErrNotFound, and its next life begins without a turn",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			p.settle(l, 0, 3, checkpoint.AppendOptions{Owes: true})
			ok(p.store.Delete(p.ctx, l))
			p.wantNoHead("a")
			p.claim("a")
			p.wantOwned("a", checkpoint.Head{Owner: "suite", Turn: -1})
		}),
	},
	{
		name: "head-names",
		rule: "keys are taken as they are: no character in them is a pattern, and an owner has the name that it gave",
		check: ofInspector(func(p *probe) {
			names := []string{"a", "A", "a ", "a_", "a%", "a*", "a:b", "{a}", "a/b", "é", "🚀", "a\nb", "'", `"`}
			for i, name := range names {
				r := request(time.Hour)
				r.Owner = name
				p.settle(p.claimAs(name, r).Lease, 0, i+1, checkpoint.AppendOptions{})
			}
			for i, name := range names {
				p.wantOwned(name, checkpoint.Head{Owner: name, Turn: i})
			}
			p.wantNoHead("ab")
			_, err := p.inspector().Head(p.ctx, checkpoint.Key{Orchestrator: "other", Session: "a"})
			want(err, checkpoint.ErrNotFound)
		}),
	},
	{
		name: "head-reads",
		rule: "Head changes nothing: its owner still settles, and others are still refused",
		check: ofInspector(func(p *probe) {
			l := p.claim("a").Lease
			for n := range 3 {
				p.head("a")
				p.wantHeld("a", request(time.Hour), owner(l))
				p.append(l, turn(n))
			}
			free := p.expired("b")
			p.head("b")
			p.claim("b")
			want(p.tryAppend(free, turn(0)), lock.ErrFenced)
		}),
	},
	{
		name: "head-invalid",
		rule: "what no store takes is ErrInvalid",
		check: ofInspector(func(p *probe) {
			for _, k := range []checkpoint.Key{{}, {Orchestrator: bot}, {Session: "a"}, key("\xff"), key("a\x00")} {
				_, err := p.inspector().Head(p.ctx, k)
				want(err, checkpoint.ErrInvalid)
			}
		}),
	},
	{
		name: "head-cancelled",
		rule: "with a ctx that is done Head returns its error and its cause",
		check: ofInspector(func(p *probe) {
			p.claim("a")
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, err := p.inspector().Head(ctx, key("a"))
			want(err, context.Canceled)
			want(err, reason)
		}),
	},
}

// headDamageClauses are about a damaged session of a store that is an Inspector.
var headDamageClauses = []clauseOn[DamagingStore]{
	{
		name: "head-damaged",
		rule: "Head of a session whose head is damaged is a *DamagedError, and other sessions have their heads",
		check: damagingInspector(func(p *probe, s DamagingStore) {
			p.settled("a", 2)
			p.settled("b", 3)
			ok(s.DamageHead(p.ctx, key("a")))
			p.wantDamagedHead("a")
			p.wantHead("b", checkpoint.Head{Turn: 2})
		}),
	},
	{
		name: "head-headless",
		rule: "Head of a session whose turns are kept without a head is a *DamagedError, until the session is deleted",
		check: damagingInspector(func(p *probe, s DamagingStore) {
			p.settled("a", 2)
			ok(s.LoseHead(p.ctx, key("a")))
			for range 2 {
				p.wantDamagedHead("a")
			}
			ok(s.Delete(p.ctx, p.wantDamagedClaim("a")))
			p.wantNoHead("a")
		}),
	},
	{
		name: "head-damaged-turn",
		rule: "Head reads no turn, so a damaged turn does not matter",
		check: damagingInspector(func(p *probe, s DamagingStore) {
			p.settled("a", 2)
			ok(s.DamageTurn(p.ctx, key("a"), 1))
			p.wantHead("a", checkpoint.Head{Turn: 1})
		}),
	},
}

// ofInspector returns check for a store that is an Inspector. For other stores it checks nothing.
func ofInspector(check func(p *probe)) func(p *probe) {
	return func(p *probe) {
		if _, is := p.store.(checkpoint.Inspector); is {
			check(p)
		}
	}
}

func damagingInspector(check func(p *probe, s DamagingStore)) func(p *probe, s DamagingStore) {
	return func(p *probe, s DamagingStore) { ofInspector(func(p *probe) { check(p, s) })(p) }
}

func (p *probe) inspector() checkpoint.Inspector { return p.store.(checkpoint.Inspector) }

func (p *probe) head(session string) checkpoint.Head {
	h, err := p.inspector().Head(p.ctx, key(session))
	ok(err)
	return h
}

// wantHead compares the whole head, with the time that the lease has left.
func (p *probe) wantHead(session string, want checkpoint.Head) {
	if h := p.head(session); h != want {
		fail("the head of %q is %+v, want %+v", session, h, want)
	}
}

// wantOwned compares the head of a session that was claimed for an hour within the last minutes.
func (p *probe) wantOwned(session string, want checkpoint.Head) {
	h := p.wantLease(session, want.Owner, time.Hour)
	if h.LeaseLeft = 0; h != want {
		fail("the head of %q is %+v, want %+v", session, h, want)
	}
}

// wantLease shows that owner has a lease, which ends ttl after a moment within the last minutes.
func (p *probe) wantLease(session, owner string, ttl time.Duration) checkpoint.Head {
	h := p.head(session)
	if h.Owner != owner || h.LeaseLeft > ttl || h.LeaseLeft < ttl-5*time.Minute {
		fail("%q owns %q for %v, want %q for %v", h.Owner, session, h.LeaseLeft, owner, ttl)
	}
	return h
}

func (p *probe) wantNoHead(session string) {
	_, err := p.inspector().Head(p.ctx, key(session))
	want(err, checkpoint.ErrNotFound)
}

func (p *probe) wantDamagedHead(session string) {
	_, err := p.inspector().Head(p.ctx, key(session))
	wantDamage(err, session)
}
