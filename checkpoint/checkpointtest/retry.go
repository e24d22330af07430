package checkpointtest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
)

var (
	owing = checkpoint.SessionQuery{Owing: true}
	due   = checkpoint.SessionQuery{Owing: true, Due: true}
)

var retryClauses = []clause{
	{
		name: "retry",
		rule: "Retry holds a session back: Owing lists it, Owing with Due does not",
		check: func(p *probe) {
			l := p.owes("a", 1)
			p.release(p.owes("b", 1))
			p.wantSessions(due, "a", "b")
			p.retry(l, time.Hour)
			p.wantSessions(owing, "a", "b")
			p.wantSessions(due, "b")
			p.release(l)
			p.claim("a")
			p.wantSessions(owing, "a", "b")
			p.wantSessions(due, "b")
		},
	},
	{
		name: "retry-over",
		rule: "a session is due again once Retry is over, by the store's clock",
		check: func(p *probe) {
			p.retry(p.owes("a", 1), time.Millisecond)
			l := p.owes("b", 1)
			p.retry(l, time.Hour)
			p.wantDue("a")
			p.wantSessions(due, "a")
			p.retry(l, time.Millisecond) // the last Retry counts
			p.wantDue("b")
		},
	},
	{
		name: "retry-page",
		rule: "the sessions that are held back cost no place in a page of Due",
		check: func(p *probe) {
			for _, session := range []string{"s0", "s1", "s3", "s5"} {
				p.retry(p.owes(session, 1), time.Hour)
			}
			for _, session := range []string{"s2", "s4", "t"} {
				p.owes(session, 1)
			}
			p.settled("s6", 1)
			p.wantSessions(due, "s2", "s4", "t")
			for after, next := range map[string]string{"": "s2", "s1": "s2", "s2": "s4", "s4": "t"} {
				p.wantSessions(checkpoint.SessionQuery{Owing: true, Due: true, Limit: 1, After: after}, next)
			}
			p.wantSessions(checkpoint.SessionQuery{Owing: true, Due: true, Limit: 2, Prefix: "s"}, "s2", "s4")
			p.wantSessions(checkpoint.SessionQuery{Owing: true, Due: true, Prefix: "s5"})
		},
	},
	{
		name: "retry-held",
		rule: "HeldBack selects the sessions that are held back for longer, and the others cost no place in a page",
		check: func(p *probe) {
			p.owes("due", 1)
			p.retry(p.owes("a minute", 1), time.Minute)
			l := p.owes("an hour", 1)
			p.retry(l, time.Hour)
			p.retry(p.owes("a year", 1), 365*24*time.Hour)
			p.settled("nothing", 1)
			p.wantSessions(heldBack(1), "a minute", "a year", "an hour")
			p.wantSessions(heldBack(10*time.Minute), "a year", "an hour")
			p.wantSessions(heldBack(2*time.Hour), "a year")
			p.wantSessions(heldBack(366*24*time.Hour - time.Hour))
			q := heldBack(2 * time.Minute)
			q.Limit = 1
			p.wantSessions(q, "a year")
			q.After = "a year"
			p.wantSessions(q, "an hour")
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1}))
			p.wantSessions(heldBack(10*time.Minute), "a year")
		},
	},
	{
		name: "retry-counts",
		rule: "each Retry counts, and every claim returns the count",
		check: func(p *probe) {
			l := p.owes("a", 2)
			for n := range 3 {
				p.retry(l, []time.Duration{time.Hour, time.Microsecond, 1}[n])
				l = p.wantFailed(l, n+1)
			}
			p.release(l)
			if c := p.claim("a"); c.Failed != 3 || c.Delivered != 0 {
				fail("failed %d times and delivered %d, want 3 and 0", c.Failed, c.Delivered)
			}
		},
	},
	{
		name: "retry-delivered",
		rule: "a mark that raises Delivered resets count and time, and no other mark does",
		check: func(p *probe) {
			l := p.owes("a", 3)
			p.retry(l, time.Hour)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1}))
			p.wantSessions(due, "a")
			l = p.wantFailed(l, 0)
			p.retry(l, time.Hour)
			for _, m := range []checkpoint.Marks{{}, {Delivered: 1}, {Summarized: 2}, {Release: true}} {
				ok(p.store.Mark(p.ctx, l, m))
			}
			p.wantSessions(due)
			l = p.wantFailed(p.claim("a").Lease, 1)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 2, Retry: time.Hour}))
			p.wantSessions(due)
			l = p.wantFailed(l, 1)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 3}))
			p.wantSessions(owing)
			p.wantFailed(l, 0)
		},
	},
	{
		name: "retry-anew",
		rule: "when all is delivered, a later turn that owes is due and has failed 0 times",
		check: func(p *probe) {
			l := p.owes("a", 1)
			p.retry(l, time.Hour)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1}))
			ok(p.store.Append(p.ctx, l, turn(1), checkpoint.AppendOptions{Owes: true}))
			p.wantSessions(due, "a")
			l = p.wantFailed(l, 0)
			p.retry(l, time.Hour)
			p.wantFailed(l, 1)
		},
	},
	{
		name: "retry-append",
		rule: "a turn that is settled while an older one is owed changes neither count nor time",
		check: func(p *probe) {
			l := p.owes("a", 1)
			p.retry(l, time.Hour)
			ok(p.store.Append(p.ctx, l, turn(1), checkpoint.AppendOptions{Owes: true}))
			ok(p.store.Append(p.ctx, l, turn(2), checkpoint.AppendOptions{}))
			p.wantSessions(due)
			p.wantSessions(owing, "a")
			p.wantFailed(l, 1)
		},
	},
	{
		name: "retry-nothing",
		rule: "Retry does nothing to a session that owes nothing",
		check: func(p *probe) {
			l := p.claim("a").Lease
			p.retry(l, time.Hour)
			ok(p.store.Append(p.ctx, l, turn(0), checkpoint.AppendOptions{Owes: true}))
			p.wantSessions(due, "a")
			l = p.wantFailed(l, 0)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Delivered: 1, Retry: time.Hour}))
			p.retry(l, time.Hour)
			p.wantSessions(owing)
			l = p.wantFailed(l, 0)
			ok(p.store.Append(p.ctx, l, turn(1), checkpoint.AppendOptions{Owes: true}))
			p.wantSessions(due, "a")
			p.wantFailed(l, 0)
		},
	},
	{
		name: "retry-fenced",
		rule: "Retry by a lease that is not the latest is ErrFenced and changes nothing, also with Release",
		check: func(p *probe) {
			old := p.owes("a", 1)
			l := p.steal("a").Lease
			for _, m := range []checkpoint.Marks{{Retry: time.Hour}, {Retry: time.Hour, Release: true}} {
				want(p.store.Mark(p.ctx, old, m), lock.ErrFenced)
			}
			p.wantSessions(due, "a")
			l = p.wantFailed(l, 0)
			ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: time.Hour, Release: true}))
			p.wantSessions(due)
			p.claim("a")
			want(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: time.Hour, Release: true}), lock.ErrFenced)
		},
	},
}

func heldBack(d time.Duration) checkpoint.SessionQuery {
	return checkpoint.SessionQuery{Owing: true, HeldBack: d}
}

// owes claims a session and settles n turns that are owed.
func (p *probe) owes(session string, n int) checkpoint.Lease {
	l := p.claim(session).Lease
	p.settle(l, 0, n, checkpoint.AppendOptions{Owes: true})
	return l
}

func (p *probe) retry(l checkpoint.Lease, after time.Duration) {
	ok(p.store.Mark(p.ctx, l, checkpoint.Marks{Retry: after}))
}

// wantFailed takes the session from l and compares the count.
func (p *probe) wantFailed(l checkpoint.Lease, times int) checkpoint.Lease {
	c := p.claimAs(l.Session, from(l.Fence))
	if c.Failed != times {
		fail("the delivery failed %d times, want %d", c.Failed, times)
	}
	return c.Lease
}

// wantDue waits until the session is due. It fails when ctx ends, because then Sessions does.
func (p *probe) wantDue(session string) {
	for !slices.Contains(p.sessions(due), session) {
	}
}
