package orchestrator

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Backlog counts what the stores hold of a bot that is not finished, of all processes. Ages are by the clocks of the
// stores, and 0 if there is none.
type Backlog struct {
	Running   int // at work, or left by an owner that is gone
	Waiting   int // for its next owner
	Suspended int // for an answer
	Parked    int // for a person
	Damaged   int // runs that cannot be read

	// These say how long ago the oldest run of each status began.
	OldestRunning, OldestWaiting, OldestSuspended, OldestParked time.Duration

	// Owed counts the sessions that owe a reply.
	Owed int

	// OwedParked counts those of them whose delivery is parked: see SkipDelivery.
	OwedParked int

	// InDoubt counts the effects that may have happened and that no process is at work on. A damaged effect counts. An
	// effect of class Pure does not. OldestInDoubt says how long ago the last attempt of the oldest began.
	InDoubt       int
	OldestInDoubt time.Duration
}

// Backlog reads the stores, so it is exact after a crash too. It costs by the runs in flight, the sessions that owe and
// the effects that are open, and not by the sessions: call it now and then. If a store cannot be read, or a part of one
// is away, Backlog returns an error, and what the others hold.
func (o *Orchestrator[S]) Backlog(ctx context.Context) (Backlog, error) {
	b, failed := o.engine.backlog(ctx)
	return b, failed.first()
}

// backlogErrors says which parts of a Backlog could not be read, and why.
type backlogErrors struct{ runs, owed, effects error }

func (e backlogErrors) first() error {
	for _, err := range []error{e.runs, e.owed, e.effects} {
		if err != nil {
			return &Error{Op: "backlog", Err: unavailable(err)}
		}
	}
	return nil
}

// backlog reads the stores at once: one that hangs keeps back nothing of the others.
func (e *engine) backlog(ctx context.Context) (b Backlog, failed backlogErrors) {
	var parts sync.WaitGroup
	parts.Go(func() { failed.runs = e.countRuns(ctx, &b) })
	parts.Go(func() { failed.owed = e.countOwed(ctx, &b) })
	parts.Go(func() { failed.effects = e.countEffects(ctx, &b) })
	parts.Wait()
	return b, failed
}

func (e *engine) countRuns(ctx context.Context, b *Backlog) error {
	q, left := snapshot.Query{Key: snapshot.Key{Orchestrator: e.identity.name}, Brief: true}, new(gap)
	for r, err := range e.runs(ctx, q) {
		switch {
		case left.add(err):
			continue
		case err != nil && !ofOneRow(err):
			return err
		case err != nil:
			b.Damaged++
			continue
		}
		switch r.Status {
		case snapshot.Running:
			b.Running, b.OldestRunning = b.Running+1, max(b.OldestRunning, r.Age)
		case snapshot.Waiting:
			b.Waiting, b.OldestWaiting = b.Waiting+1, max(b.OldestWaiting, r.Age)
		case snapshot.Suspended:
			b.Suspended, b.OldestSuspended = b.Suspended+1, max(b.OldestSuspended, r.Age)
		case snapshot.Parked:
			b.Parked, b.OldestParked = b.Parked+1, max(b.OldestParked, r.Age)
		}
	}
	return left.err
}

func (e *engine) countOwed(ctx context.Context, b *Backlog) error {
	q, left := checkpoint.SessionQuery{Orchestrator: e.identity.name, Owing: true}, new(gap)
	for _, n := range []struct {
		count *int
		held  time.Duration
	}{{&b.Owed, 0}, {&b.OwedParked, lastRetry}} { // no delivery that is not parked waits for longer
		q.HeldBack = n.held
		for _, err := range e.store.Sessions(ctx, q) {
			if left.add(err) {
				continue
			}
			if err != nil && !ofOneRow(err) {
				return err
			}
			if err == nil || n.held == 0 { // of a damaged session it is not known whether it is parked
				*n.count++
			}
		}
		if *n.count == 0 {
			break
		}
	}
	return left.err
}

func (e *engine) countEffects(ctx context.Context, b *Backlog) error {
	if e.ledger == nil {
		return nil
	}
	q := ledger.Query{Orchestrator: e.identity.name, Open: true, Brief: true}
	for effect, err := range e.ledger.Effects(ctx, q) {
		switch {
		case err != nil && !ofOneRow(err):
			return err
		case err != nil:
			b.InDoubt++
		case effect.State == ledger.Unknown && effect.Class != ledger.Pure:
			b.InDoubt, b.OldestInDoubt = b.InDoubt+1, max(b.OldestInDoubt, effect.Age)
		}
	}
	return nil
}
