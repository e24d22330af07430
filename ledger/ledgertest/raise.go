package ledgertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// RaisingLedger is a ledger that can be told of a failover.
type RaisingLedger interface {
	ledger.Ledger
	lock.Raiser
}

// An Opener returns a ledger whose Raise opens a window of the given time. All that it returns have the same effects.
type Opener = func(doubtFor time.Duration) RaisingLedger

// RunRaiser checks the clauses of [lock.Raiser], and of the window that Raise opens. newLedger must return an Opener of
// empty ledgers each time it is called.
func RunRaiser(t *testing.T, newLedger func(t *testing.T) Opener) { raiseContract().Run(t, newLedger) }

// RaiseViolations is [Violations] for the clauses of RunRaiser.
func RaiseViolations(ctx context.Context, newLedger func() Opener, names ...string) map[string]error {
	return raiseContract().Violations(ctx, newLedger, names...)
}

func raiseContract() suite.Clauses[Opener] {
	return suite.Of(raiseClauses, func(c raiseClause) suite.Clause[Opener] {
		return suite.Clause[Opener]{Name: c.name, Rule: c.rule, Check: func(ctx context.Context, open Opener) error {
			l := open(0)
			c.check(&probe{ctx: ctx, ledger: l}, l, open)
			return nil
		}}
	})
}

// A raiseClause is a clause about a ledger whose window is open as long as by default.
type raiseClause struct {
	name, rule string
	check      func(p *probe, l RaisingLedger, open Opener)
}

var raiseClauses = []raiseClause{
	{
		name: "raise-ends",
		rule: "after Raise no owner of before issues, records or adopts, also if the ledger did not know its run",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			before := map[string]lock.Fence{"run": fence(10), "ahead": newest()} // of a clock that is ahead
			for run, f := range before {
				p.finish(p.issue(idempotent(run, run, f)), paid)
			}
			raise(p, l, time.Now(), 0)
			for run, f := range before {
				for _, id := range []string{run, run + " again"} {
					_, issued, err := l.Issue(p.ctx, idempotent(run, id, f), false)
					if want(err, lock.ErrFenced); issued {
						fail("issued under a fence of before")
					}
				}
				_, err := l.Record(p.ctx, under(pure(run, run+" pure", `1`), f))
				want(err, lock.ErrFenced)
				want(l.Adopt(p.ctx, run, f), lock.ErrFenced)
				p.wantState(run, ledger.Completed, 1)
				p.adopt(run, newest())
			}
			want(l.Adopt(p.ctx, "unknown", fence(time.Now().Add(-time.Minute).UnixMicro())), lock.ErrFenced)
			p.issue(idempotent("new", "new", newest()))
		},
	},
	{
		name: "raise-issued",
		rule: "what owners of before have left Issued is Unknown after Raise, which counts it; a late result is taken",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			e := p.issue(idempotent("run", "a", fence(10)))
			p.issue(keyed("two", "b", fence(20)))
			p.finish(p.issue(effect("three", "c", fence(30))), paid)
			raise(p, l, time.Now(), 2)
			for _, id := range []string{"a", "b"} {
				if now := p.wantState(id, ledger.Unknown, 1); now.FinishedAt.Before(now.IssuedAt) {
					fail("effect %+v", now)
				}
			}
			p.wantState("c", ledger.Completed, 1)
			p.finish(e, paid)
			p.wantState("a", ledger.Completed, 1)
		},
	},
	{
		name: "raise-doubts",
		rule: "after Raise the first Issue of an effect with a Key that is Ask or Verifiable is Unknown, and says why",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			lost := time.Date(2026, 3, 12, 10, 30, 0, 0, time.UTC)
			raise(p, l, lost, 0)
			for _, class := range []ledger.Class{ledger.Ask, ledger.Verifiable} {
				asked := keyed("run "+class.String(), class.String(), newest())
				asked.Class, asked.Began = class, afterRaise()
				now := p.issueAs(asked, false, false)
				if now.State != ledger.Unknown || now.Attempts != 1 || now.Unsure || now.FinishedAt.IsZero() ||
					!strings.Contains(now.Error, "2026-03-12T10:30:00Z") {
					fail("issued: %+v", now)
				}
				p.wantSame(now)
				if again := p.issueAs(asked, false, false); again.State != ledger.Unknown || again.Attempts != 1 {
					fail("repeated: %+v", again)
				}
				if n := len(p.effects(ledger.Query{RunID: asked.RunID, Open: true})); n != 1 {
					fail("%d effects are open, want 1", n)
				}
			}
		},
	},
	{
		name: "raise-run",
		rule: "after Raise an effect without Key is Unknown if its run may have begun before, and Issued if it has not",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			before := time.Now().Add(-time.Second)
			raise(p, l, time.Now(), 0)
			for id, began := range map[string]time.Time{
				"unknown": {}, "long ago": time.Unix(1, 0), "before": before, "after": afterRaise(),
			} {
				asked := effect("run of "+id, id, newest())
				asked.Began = began
				now := p.issueAs(asked, false, id == "after")
				if !now.Began.IsZero() {
					fail("issued: %+v", now)
				}
				p.wantSame(now)
			}
			p.wantState("after", ledger.Issued, 1)
			p.wantState("before", ledger.Unknown, 1)
		},
	},
	{
		name: "raise-spares",
		rule: "Raise does not concern what is Idempotent or Pure",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			raise(p, l, time.Time{}, 0)
			for _, class := range []ledger.Class{ledger.Idempotent, ledger.Pure} {
				asked := keyed("run", class.String(), newest())
				asked.RunID += asked.ID
				asked.Class = class
				p.issue(asked)
				p.wantState(asked.ID, ledger.Issued, 1)
			}
			if e := p.record(under(pure("pure", "pure", `1`), newest())); e.State != ledger.Completed || e.Error != "" {
				fail("recorded: %+v", e)
			}
		},
	},
	{
		name: "raise-known",
		rule: "what is known gives its result back after Raise, and has another attempt if no window concerns it",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			p.finish(p.issue(keyed("run", "done", fence(10))), paid)
			spared := idempotent("two", "failed", fence(10))
			p.finish(p.issue(spared), failed)
			young := effect("three", "young", fence(10))
			p.finish(p.issue(young), failed)
			raise(p, l, time.Now(), 0)
			if e := p.meet(keyed("run", "done", newest()), false); e.State != ledger.Completed {
				fail("met: %+v", e)
			}
			young.Began = afterRaise()
			for _, e := range []ledger.Effect{spared, young} {
				if e := p.issueAgain(under(e, newest())); e.Attempts != 2 || e.Unsure {
					fail("issued anew: %+v", e)
				}
			}
		},
	},
	{
		name: "raise-failed",
		rule: "the attempt after one that has Failed before Raise is Unknown, until the vendor or a person says no",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			for _, id := range []string{"told", "answered", "landed"} {
				p.finish(p.issue(keyed("run of "+id, id, fence(10))), failed)
			}
			raise(p, l, time.Now(), 0)
			for _, id := range []string{"told", "answered", "landed"} {
				asked := keyed("run of "+id, id, newest())
				if e := p.meet(asked, false); e.State != ledger.Failed {
					fail("met: %+v", e)
				}
				now := p.meet(asked, true)
				if now.State != ledger.Unknown || now.Attempts != 2 || now.Unsure || now.Error == "" ||
					now.Error == failed.Error || now.FinishedAt.Before(now.IssuedAt) || now.RunID != asked.RunID {
					fail("issued anew: %+v", now)
				}
				p.wantSame(now)
				switch id {
				case "told":
					asked.State = ledger.Failed
				case "answered":
					ok(p.resolve(id, ledger.Answer{By: "Ann"}))
				case "landed": // a late result
					p.finish(now, paid)
					p.meet(asked, true)
					continue
				}
				if e := p.issueAgain(asked); e.Attempts != 3 || e.Unsure || e.Error != "" {
					fail("issued anew: %+v", e)
				}
			}
		},
	},
	{
		name: "raise-decided",
		rule: "what was in doubt by a Raise and is decided stays decided",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			raise(p, l, time.Now(), 0)
			for id, decide := range map[string]func(asked *ledger.Effect){
				"not landed": func(*ledger.Effect) { ok(p.resolve("not landed", ledger.Answer{By: "Ann"})) },
				"told":       func(asked *ledger.Effect) { asked.State = ledger.Failed },
			} {
				asked := keyed("run of "+id, id, newest())
				p.issueAs(asked, false, false)
				decide(&asked)
				if e := p.issueAgain(asked); e.Attempts != 2 || e.Unsure || e.Error != "" {
					fail("issued anew: %+v", e)
				}
				p.finish(p.wantState(id, ledger.Issued, 2), failed)
				p.issueAgain(asked)
			}
			landed := keyed("landed", "landed", newest())
			p.issueAs(landed, false, false)
			ok(p.resolve("landed", ledger.Answer{By: "Ann", Landed: true, Result: paid.Result}))
			if e := p.meet(landed, true); e.State != ledger.Completed || e.AnsweredBy != "Ann" {
				fail("met: %+v", e)
			}
		},
	},
	{
		name: "raise-lost-attempt",
		rule: "after Raise the next attempt at an effect that was lost is Unknown too",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			raise(p, l, time.Now(), 0)
			asked := keyed("run", "a", newest())
			asked.Attempts = 3
			p.issueAs(asked, true, false)
			p.wantState("a", ledger.Unknown, 1)
		},
	},
	{
		name: "raise-two-runs",
		rule: "of two runs that ask for one Key after Raise neither is issued, and both get what becomes of it",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			raise(p, l, time.Now(), 0)
			p.issueAs(keyed("one", "a", newest()), false, false)
			e := p.issueAs(keyed("two", "a", newest()), false, false)
			if e.State != ledger.Unknown || e.RunID != "one" {
				fail("met: %+v", e)
			}
			p.finish(p.kept("a"), paid) // a late result
			for _, run := range []string{"one", "two"} {
				if e := p.meet(keyed(run, "a", newest()), false); e.State != ledger.Completed {
					fail("met: %+v", e)
				}
			}
		},
	},
	{
		name: "raise-window",
		rule: "after the window what is new is issued, and the owners of before stay ended",
		check: func(p *probe, _ RaisingLedger, open Opener) {
			for id, doubtFor := range map[string]time.Duration{"short": time.Microsecond, "none": -1} {
				l := open(doubtFor)
				raise(p, l, time.Now(), 0)
				for start := time.Now(); time.Since(start) < clocks; {
				}
				p.finish(p.issue(keyed("run of "+id, id, newest())), paid)
				want(l.Adopt(p.ctx, "run", fence(10)), lock.ErrFenced)
			}
		},
	},
	{
		name: "raise-overlap",
		rule: "each ledger sees the window of each Raise, and a short window does not close a long one",
		check: func(p *probe, l RaisingLedger, open Opener) {
			raise(p, open(time.Hour), time.Now(), 0)
			raise(p, open(-1), time.Now(), 0)
			for _, id := range []string{"a", "b"} {
				p.ledger = open(-1)
				p.issueAs(keyed("run of "+id, id, newest()), false, false)
			}
			ok(p.resolve("a", ledger.Answer{By: "Ann"}))
			p.issueAgain(keyed("run of a", "a", newest()))
			raise(p, l, time.Now().Add(time.Hour), 1) // its owner is one of before
			p.wantState("a", ledger.Unknown, 2)
			p.wantState("b", ledger.Unknown, 1)
		},
	},
	{
		name: "raise-cancelled",
		rule: "Raise with a ctx that is done returns its cause, and changes nothing",
		check: func(p *probe, l RaisingLedger, _ Opener) {
			e := p.issue(keyed("run", "a", fence(10)))
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, err := l.Raise(ctx, time.Now())
			want(err, reason)
			p.wantSame(e)
			p.issue(keyed("two", "b", fence(10)))
		},
	},
}

// raise ends all owners, who have left this many effects Issued.
func raise(p *probe, l RaisingLedger, lost time.Time, ended int) {
	n, err := l.Raise(p.ctx, lost)
	if ok(err); n != ended {
		fail("Raise has ended %d effects, want %d", n, ended)
	}
}

// newest returns the fence of a claim after Raise: epochs are microseconds. Each is higher than the one before.
func newest() lock.Fence {
	f := fence(time.Now().Add(time.Minute).UnixMicro())
	f.Epoch += nonces.Load()
	return f
}

// afterRaise is when a run begins that certainly began after a Raise: clocks may be minutes apart.
func afterRaise() time.Time { return time.Now().Add(time.Hour) }

func under(e ledger.Effect, f lock.Fence) ledger.Effect {
	e.Fence = f
	return e
}

func idempotent(run, id string, f lock.Fence) ledger.Effect {
	e := effect(run, id, f)
	e.Class = ledger.Idempotent
	return e
}
