package snapshottest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A DividedStore is a store of which a part can be taken away, as when a node of a cluster is down. Only the tests of a
// backend know how to do so.
type DividedStore interface {
	snapshot.Store

	// TakeAway takes a part of the store away. It returns which of the sessions are on that part: some, and not all.
	// back brings the part back, and returns when the part answers.
	TakeAway(ctx context.Context, orchestrator string, sessions []string) (away []string, back func(), err error)
}

// RunDivided checks the clauses about a part of a store that is away. newStore must return an empty store each time it
// is called.
func RunDivided(t *testing.T, newStore func(t *testing.T) DividedStore) {
	dividedContract().Run(t, newStore)
}

func dividedContract() suite.Clauses[DividedStore] {
	return suite.Of(dividedClauses, clauseOn[DividedStore].bound)
}

// listWithin bounds four listings while a part is away.
const listWithin = 30 * time.Second

var dividedClauses = []clauseOn[DividedStore]{
	{
		name: "runs-away",
		rule: "Runs yields every run, those that it cannot reach with an *AwayError, and goes on",
		check: func(p *probe, s DividedStore) {
			all := p.fleet(100)
			away, back := p.takeAway(s, all)
			start := time.Now()
			for _, q := range []snapshot.Query{{}, {Brief: true}, {Unattended: true, Brief: true}} {
				p.wantReached(q, all, away)
			}
			p.wantReached(snapshot.Query{After: all[5], Limit: 40}, all[6:46], away)
			if took := time.Since(start); took > listWithin {
				fail("four listings take %v", took)
			}
			back()
			p.soon(func() error {
				for _, err := range s.Runs(p.ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: bot}}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			p.wantReached(snapshot.Query{Status: snapshot.Running}, all, nil)
		},
	},
	{
		name: "run-away",
		rule: "a query for the run of one session that cannot be reached ends with an error that names no session",
		check: func(p *probe, s DividedStore) {
			all := p.fleet(12)
			away, back := p.takeAway(s, all)
			defer back()
			for _, id := range []string{away[0], all[slices.IndexFunc(all, func(id string) bool {
				return !slices.Contains(away, id)
			})]} {
				n := 0
				for r, err := range s.Runs(p.ctx, snapshot.Query{Key: key(id)}) {
					_, partial := errors.AsType[*snapshot.AwayError](err)
					if n++; n > 1 || partial || err != nil && (r.Session != "" || !slices.Contains(away, id)) {
						fail("session %q: run %d of %q, with error %v; away are %q", id, n, r.Session, err, away)
					}
				}
				if n == 0 {
					fail("the run of %q is missing", id)
				}
			}
		},
	},
}

func (p *probe) takeAway(s DividedStore, sessions []string) (away []string, back func()) {
	away, back, err := s.TakeAway(p.ctx, bot, sessions)
	if ok(err); len(away) == 0 || len(away) == len(sessions) {
		fail("%d of %d sessions are away", len(away), len(sessions))
	}
	return away, back
}

// soon repeats f until it succeeds: a part that is back may need a moment.
func (p *probe) soon(f func() error) {
	ctx, cancel := context.WithTimeout(p.ctx, time.Minute)
	defer cancel()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			fail("a minute later: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// wantReached compares the runs of q. If a run that is away cannot be reached, it comes with its error.
func (p *probe) wantReached(q snapshot.Query, want, away []string) {
	q.Orchestrator = bot
	var got []string
	for r, err := range p.store.Runs(p.ctx, q) {
		if err != nil {
			e, is := errors.AsType[*snapshot.AwayError](err)
			if !is || e.Key != key(r.Session) || e.Err == nil || !slices.Contains(away, r.Session) {
				fail("run of %q comes with error %v; away are %q", r.Session, err, away)
			}
			if r.ID != "" || r.Status != "" {
				fail("a run that cannot be reached is %+v", r)
			}
		}
		got = append(got, r.Session)
	}
	if !slices.Equal(got, want) {
		fail("runs of %+v are %q, want %q", q, got, want)
	}
}
