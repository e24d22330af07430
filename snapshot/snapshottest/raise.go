package snapshottest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// RaisingStore is a store whose owners can all be ended at once.
type RaisingStore interface {
	snapshot.Store
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
		rule: "after Raise no owner of before saves, adopts or deletes, and a later claim adopts the whole run",
		check: func(p *probe, s RaisingStore) {
			r := run("a", fence(10))
			r.Parts = map[string]json.RawMessage{"x": json.RawMessage(`1`)}
			p.begin(r)
			p.raise(s, time.Now(), 1)
			want(s.Save(p.ctx, next(r)), lock.ErrFenced)
			want(s.Delete(p.ctx, r.Key, r.ID, r.Fence), lock.ErrFenced)
			for _, f := range []lock.Fence{r.Fence, fence(11), fence(time.Now().Add(-time.Minute).UnixMicro())} {
				_, err := s.Adopt(p.ctx, r.Key, f, 3)
				want(err, lock.ErrFenced)
			}
			r.Fence = later()
			p.adopt(r, r.Fence, 0)
			p.wantWhole(r)
			p.save(next(r))
		},
	},
	{
		name: "raise-shown",
		rule: "after Raise a run is listed, and found by Begin, as it was but for its fence",
		check: func(p *probe, s RaisingStore) {
			r := p.begun("a")
			p.raise(s, time.Time{}, 1)
			for _, brief := range []bool{false, true} {
				p.wantSessions(snapshot.Query{Unattended: true, Brief: brief}, "a")
			}
			found, err := s.Begin(p.ctx, run("a", later()))
			if ok(err); found == nil || found.ID != r.ID || found.Fence == r.Fence {
				fail("Begin finds %+v, want %s", found, r.ID)
			}
		},
	},
	{
		name: "raise-kept",
		rule: "after Raise no Begin of before is taken in a session that has no run, and a later one is",
		check: func(p *probe, s RaisingStore) {
			p.over("a", 10)
			_, err := s.Adopt(p.ctx, key("b"), fence(10), 3)
			want(err, snapshot.ErrNotFound)
			p.raise(s, time.Now(), 2)
			for _, session := range []string{"a", "b"} {
				p.wantLate(run(session, fence(11)))
				p.begin(run(session, later()))
			}
		},
	},
	{
		name: "raise-again",
		rule: "Raise may be repeated, counts the sessions whose fences it ends, and spares none that came since",
		check: func(p *probe, s RaisingStore) {
			p.raise(s, time.Now(), 0)
			r := p.begun("a")
			p.raise(s, time.Now().Add(-time.Hour), 1)
			p.raise(s, time.Now().Add(time.Hour), 0)
			r.Fence = later()
			p.adopt(r, r.Fence, 0)
			p.raise(s, time.Time{}, 1)
			want(s.Save(p.ctx, next(r)), lock.ErrFenced)
		},
	},
	{
		name: "raise-cancelled",
		rule: "Raise with a ctx that is done returns its cause, and changes nothing",
		check: func(p *probe, s RaisingStore) {
			r := p.begun("a")
			ctx, cancel := context.WithCancelCause(p.ctx)
			reason := errors.New("reason")
			cancel(reason)
			_, err := s.Raise(ctx, time.Now())
			want(err, reason)
			p.save(next(r))
		},
	},
}

// raise ends all owners. The store knew fences of this many sessions.
func (p *probe) raise(s RaisingStore, lost time.Time, ended int) {
	n, err := s.Raise(p.ctx, lost)
	if ok(err); n != ended {
		fail("Raise has ended %d owners, want %d", n, ended)
	}
}

// later returns the fence of a claim after Raise: epochs are microseconds. Other clocks may be behind by a minute.
func later() lock.Fence { return fence(time.Now().Add(time.Minute).UnixMicro()) }
