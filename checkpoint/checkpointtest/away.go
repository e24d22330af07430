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

// A DividedStore is a store of which a part can be taken away, as when a node of a cluster is down. Only the tests of a
// backend know how.
type DividedStore interface {
	checkpoint.Store

	// TakeAway takes a part of the store away. It returns which of the sessions are on that part: some, and not all.
	// back brings the part back, and returns when the part answers.
	TakeAway(ctx context.Context, orchestrator string, sessions []string) (away []string, back func(), err error)
}

// A DividedSweepingStore is a DividedStore that retires idle sessions when asked.
type DividedSweepingStore interface {
	DividedStore
	checkpoint.Sweeper
}

// RunDivided checks the clauses about a part of a store that is away. newStore must return an empty store each time it
// is called.
func RunDivided(t *testing.T, newStore func(t *testing.T) DividedStore) {
	dividedContract().Run(t, newStore)
}

// RunDividedSweeper checks the clause about a sweep while a part of a store is away. newStore must return an empty
// store whose sessions are idle after ttl.
func RunDividedSweeper(t *testing.T, newStore func(t *testing.T, ttl time.Duration) DividedSweepingStore) {
	t.Helper()
	dividedSweep.bound().Test(t, newStore(t, time.Millisecond))
}

func dividedContract() suite.Clauses[DividedStore] {
	return suite.Of(dividedClauses, clauseOn[DividedStore].bound)
}

// Bounds of the calls while a part is away. A node that does not answer may cost a listing some seconds.
const (
	renewWithin = 4 * time.Second
	listWithin  = 30 * time.Second
)

var dividedClauses = []clauseOn[DividedStore]{
	{
		name: "renew-away",
		rule: "Renew extends the leases that it can reach before ctx ends, and names exactly the others as unknown",
		check: func(p *probe, s DividedStore) {
			f := p.leased(24)
			away, back := p.takeAway(s, f.all)
			ctx, cancel := context.WithTimeout(p.ctx, renewWithin)
			defer cancel()
			start := time.Now()
			lost, err := s.Renew(ctx, 2*time.Hour, f.leases)
			if took := time.Since(start); took > 2*renewWithin {
				fail("Renew takes %v, with a ctx of %v", took, renewWithin)
			}
			f.judge(lost, err, away)
			ofInspector(func(p *probe) { f.wantExtended(p, away) })(p)
			back()
			p.soon(func() error {
				lost, err := s.Renew(p.ctx, 2*time.Hour, f.leases)
				if err == nil {
					f.judge(lost, nil, nil)
				}
				return err
			})
		},
	},
	{
		name: "held-away",
		rule: "Held names the owners of all sessions that it can reach, and returns an *AwayError if it misses others",
		check: func(p *probe, s DividedStore) {
			f := p.leased(24)
			away, back := p.takeAway(s, f.all)
			held, err := s.Held(p.ctx, bot, f.all)
			if _, is := errors.AsType[*checkpoint.AwayError](err); err != nil && !is {
				fail("got error %v, want an *AwayError", err)
			}
			for _, id := range f.all {
				if held[id] == "" && (err == nil || !slices.Contains(away, id)) {
					fail("the owner of %q is missing, with error %v; away are %q", id, err, away)
				}
			}
			back()
			p.soon(func() error {
				held, err := s.Held(p.ctx, bot, f.all)
				if err == nil && len(held) != len(f.all) {
					fail("held are %q", held)
				}
				return err
			})
		},
	},
	{
		name: "sessions-away",
		rule: "Sessions yields every session, those that it cannot reach with an *AwayError, and goes on",
		check: func(p *probe, s DividedStore) {
			var all []string
			for i := range 60 {
				all = append(all, fmt.Sprintf("s%02d", i))
				p.settle(p.claim(all[i]).Lease, 0, 1, checkpoint.AppendOptions{Owes: true, Release: true})
			}
			away, back := p.takeAway(s, all)
			start := time.Now()
			for _, q := range []checkpoint.SessionQuery{{}, {Owing: true, Due: true}, {Prefix: "s"}} {
				p.wantReached(q, all, away)
			}
			p.wantReached(checkpoint.SessionQuery{After: all[5], Limit: 40}, all[6:46], away)
			if took := time.Since(start); took > listWithin {
				fail("four listings take %v", took)
			}
			back()
			p.soon(func() error {
				for _, err := range s.Sessions(p.ctx, checkpoint.SessionQuery{Orchestrator: bot}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			p.wantReached(checkpoint.SessionQuery{Owing: true}, all, nil)
		},
	},
}

var dividedSweep = clauseOn[DividedSweepingStore]{
	name: "sweep-away",
	rule: "Sweep retires what it can reach, returns an error while a part is away, and retires the others afterwards",
	check: func(p *probe, s DividedSweepingStore) {
		var all []string
		for i := range 12 {
			all = append(all, fmt.Sprintf("s%02d", i))
			p.settled(all[i], 1)
		}
		away, back := p.takeAway(s, all)
		var failed error
		p.soon(func() error {
			if _, err := s.Sweep(p.ctx, 100); err != nil {
				failed = err
			}
			if left := p.reached(away); len(left) > 0 {
				return fmt.Errorf("not retired: %q, the last error is %w", left, failed)
			}
			return nil
		})
		if failed == nil {
			fail("Sweep returns no error, although %q cannot be reached", away)
		}
		back()
		p.soon(func() error {
			_, err := s.Sweep(p.ctx, 100)
			if left := p.reached(nil); len(left) > 0 {
				return fmt.Errorf("not retired: %q, the last error is %w", left, err)
			}
			return err
		})
	},
}

// reached returns the sessions that are listed, without those that are away.
func (p *probe) reached(away []string) (left []string) {
	for id, err := range p.store.Sessions(p.ctx, checkpoint.SessionQuery{Orchestrator: bot}) {
		if err == nil && !slices.Contains(away, id) {
			left = append(left, id)
		}
	}
	return left
}

// A fleet is leases of sessions, of which every fourth is stolen.
type fleet struct {
	all    []string
	leases []checkpoint.Lease
}

func (f fleet) stolen(i int) bool { return i%4 == 3 }

// leased claims n sessions for half an hour.
func (p *probe) leased(n int) (f fleet) {
	for i := range n {
		id := fmt.Sprintf("s%02d", i)
		f.all = append(f.all, id)
		f.leases = append(f.leases, p.claimAs(id, request(time.Hour/2)).Lease)
		if f.stolen(i) {
			p.steal(id)
		}
	}
	return f
}

// judge compares what Renew said of each lease with what can be known while some sessions are away.
func (f fleet) judge(lost []checkpoint.Lease, err error, away []string) {
	var unknown []checkpoint.Lease
	if len(away) > 0 {
		partial, is := errors.AsType[*checkpoint.RenewError](err)
		if !is || partial.Err == nil {
			fail("got error %v, want a *RenewError with its reason", err)
		}
		unknown = partial.Unknown
	}
	for i, l := range f.leases {
		isLost, isUnknown := slices.Contains(lost, l), slices.Contains(unknown, l)
		gone := slices.Contains(away, l.Session)
		switch {
		case isLost && isUnknown:
			fail("%q is both lost and unknown", l.Session)
		case gone && f.stolen(i) && (isLost || isUnknown), gone && !f.stolen(i) && isUnknown:
		case !gone && isLost == f.stolen(i) && !isUnknown:
		default:
			fail("%q: away %v, stolen %v; told lost %v, unknown %v", l.Session, gone, f.stolen(i), isLost, isUnknown)
		}
	}
	if len(lost)+len(unknown) > len(f.leases) {
		fail("%d leases are lost and %d unknown, of %d", len(lost), len(unknown), len(f.leases))
	}
}

// wantExtended shows that each lease that can be reached, and was not stolen, lasts for longer than its claim said.
func (f fleet) wantExtended(p *probe, away []string) {
	for i, l := range f.leases {
		if f.stolen(i) || slices.Contains(away, l.Session) {
			continue
		}
		h, err := p.store.(checkpoint.Inspector).Head(p.ctx, l.Key)
		if ok(err); h.LeaseLeft < time.Hour {
			fail("%q is told to be extended, and its lease ends in %v", l.Session, h.LeaseLeft)
		}
	}
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

// wantReached compares the sessions of q. If a session that is away cannot be reached, it comes with its error.
func (p *probe) wantReached(q checkpoint.SessionQuery, want, away []string) {
	q.Orchestrator = bot
	var got []string
	for id, err := range p.store.Sessions(p.ctx, q) {
		if err != nil {
			e, is := errors.AsType[*checkpoint.AwayError](err)
			if !is || e.Key != key(id) || e.Err == nil || !slices.Contains(away, id) {
				fail("session %q comes with error %v; away are %q", id, err, away)
			}
		}
		got = append(got, id)
	}
	if !slices.Equal(got, want) {
		fail("sessions of %+v are %q, want %q", q, got, want)
	}
}
