package snapshottest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// SweepingStore is a store with a Sweep, which forgets the fences of sessions without a run.
type SweepingStore interface {
	snapshot.Store
	snapshot.Sweeper
}

// RunSweeper checks the clauses of [snapshot.Sweeper]. newStore must return an empty store that remembers a fence for
// the given time, and for [snapshot.DefaultRemember] if that is 0.
func RunSweeper(t *testing.T, newStore func(t *testing.T, remember time.Duration) SweepingStore) {
	sweepContract().Run(t, func(t *testing.T) opener {
		return func(remember time.Duration) SweepingStore { return newStore(t, remember) }
	})
}

// An opener makes a store that remembers a fence for the given time.
type opener = func(remember time.Duration) SweepingStore

func sweepContract() suite.Clauses[opener] {
	return suite.Of(sweepClauses, func(c sweepClause) suite.Clause[opener] {
		return suite.With(c.remember, clauseOn[SweepingStore]{c.name, c.rule, c.check}.bound())
	})
}

type sweepClause struct {
	name     string
	rule     string
	remember time.Duration
	check    func(p *probe, s SweepingStore)
}

var sweepClauses = []sweepClause{
	{
		name:     "forgotten",
		rule:     "once a run has been deleted for as long as the store remembers, Sweep forgets its fence and its id",
		remember: time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			old := p.over("a", 10)
			p.sweep(s, 1)
			p.wantNone("a")
			p.begin(old)
			p.wantRun(old)
		},
	},
	{
		name:     "young",
		rule:     "a fence stays for as long as the store remembers",
		remember: time.Hour,
		check: func(p *probe, s SweepingStore) {
			old := p.over("a", 10)
			p.sweep(s, 0)
			p.wantLate(old)
			p.wantLate(run("a", fence(9)))
		},
	},
	{
		name: "default",
		rule: "a store that is not told how long remembers a fence for a day",
		check: func(p *probe, s SweepingStore) {
			old := p.over("a", 10)
			p.sweep(s, 0)
			p.wantLate(old)
		},
	},
	{
		name:     "negative",
		rule:     "a store that is told less than no time remembers a fence for a day",
		remember: -time.Hour,
		check: func(p *probe, s SweepingStore) {
			old := p.over("a", 10)
			p.sweep(s, 0)
			p.wantLate(old)
		},
	},
	{
		name:     "in-flight",
		rule:     "a session with a run in flight stays, in any status and however old it is",
		remember: time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			r := p.begun("running")
			ended := next(p.begun("ended"))
			ended.Status = snapshot.Ended
			p.save(ended)
			p.over("over", 10)
			p.sweep(s, 1)
			p.wantRun(r)
			p.wantRun(ended)
			_, err := p.store.Adopt(p.ctx, r.Key, fence(9), 0)
			want(err, lock.ErrFenced)
		},
	},
	{
		name:     "again",
		rule:     "a session that begins another run is in flight again; its time counts from the Delete of that run",
		remember: 100 * time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			p.over("a", 10)
			r := p.begin(run("a", fence(11)))
			p.over("clock", 10)
			// The first run of a was deleted before the run of the clock.
			p.sweep(s, 1)
			p.wantRun(r)
			deleted := time.Now()
			ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
			n, err := s.Sweep(p.ctx, 0)
			if ok(err); n > 0 && time.Since(deleted) < 100*time.Millisecond {
				fail("a fence was forgotten %v after Delete", time.Since(deleted))
			}
		},
	},
	{
		name:     "adopted",
		rule:     "a fence that an Adopt without a run has made known is forgotten like others, and no sooner",
		remember: 100 * time.Millisecond,
		check: func(p *probe, s SweepingStore) {
			p.over("b", 10)
			began := time.Now()
			for _, session := range []string{"a", "b"} {
				_, err := p.store.Adopt(p.ctx, key(session), fence(20), 3)
				want(err, snapshot.ErrNotFound)
			}
			n, err := s.Sweep(p.ctx, 0)
			if ok(err); n > 0 && time.Since(began) < 100*time.Millisecond {
				fail("a fence was forgotten %v after Adopt", time.Since(began))
			}
			p.sweep(s, 2-n)
			p.begin(run("a", fence(10)))
			p.begin(run("b", fence(10)))
		},
	},
	{
		name:     "limit",
		rule:     "limit bounds how many are forgotten at once, and nothing is forgotten twice",
		remember: time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			for _, session := range []string{"a", "b", "c", "d", "e"} {
				p.over(session, 10)
			}
			for left, limit := 5, 1; left > 0; {
				n, err := s.Sweep(p.ctx, limit)
				if ok(err); n > limit || n > left {
					fail("forgot %d of %d with limit %d", n, left, limit)
				}
				if left -= n; n > 0 {
					limit = 2
				}
			}
			p.sweep(s, 0)
		},
	},
	{
		name:     "cancelled",
		rule:     "with a ctx that is done Sweep returns its error and its cause, and forgets nothing",
		remember: time.Microsecond,
		check: func(p *probe, s SweepingStore) {
			p.over("a", 10)
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, err := s.Sweep(ctx, 0)
			want(err, context.Canceled)
			want(err, reason)
			p.sweep(s, 1)
		},
	},
}

// over begins a run and deletes it.
func (p *probe) over(session string, epoch int64) snapshot.Run {
	r := p.begin(run(session, fence(epoch)))
	ok(p.store.Delete(p.ctx, r.Key, r.ID, r.Fence))
	return r
}

// sweep calls Sweep until exactly want sessions are forgotten.
func (p *probe) sweep(s SweepingStore, want int) {
	for left := want; left > 0; {
		n, err := s.Sweep(p.ctx, 0)
		if ok(err); n > left {
			fail("forgot %d sessions, want %d", want-left+n, want)
		}
		left -= n
	}
	n, err := s.Sweep(p.ctx, 0)
	if ok(err); n != 0 {
		fail("forgot %d sessions, want %d", want+n, want)
	}
}
