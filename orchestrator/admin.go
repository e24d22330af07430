package orchestrator

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Turns yields the kept turns, newest first. If a turn is of another definition, and there is no Migrate, Turns ends
// with an error. A damaged turn comes with a *checkpoint.DamagedError; then Turns goes on.
func (o *Orchestrator[S]) Turns(ctx context.Context, session string) iter.Seq2[*Result[S], error] {
	return func(yield func(*Result[S], error) bool) {
		fail := func(turn int, err error) bool {
			return yield(nil, &Error{Op: "turns", Session: session, Turn: turn, Err: err})
		}
		if err := checkSession(session); err != nil {
			fail(0, err)
			return
		}
		for cp, err := range o.store.Turns(ctx, o.key(session), checkpoint.Newest) {
			var res *Result[S]
			if err == nil {
				res, err = o.result(ctx, session, cp, false)
			}
			if err == nil && yield(res, nil) || err != nil && fail(cp.Turn, err) && ofOneRow(err) {
				continue
			}
			return
		}
	}
}

// Runs yields the runs in flight, suspended and parked; none without a snapshot store. A damaged run comes with its
// session and a *snapshot.DamagedError; then Runs goes on. After any other error Runs ends.
func (o *Orchestrator[S]) Runs(ctx context.Context) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range o.runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: o.name}}) {
			if err != nil {
				if !yield(r, &Error{Op: "runs", Session: r.Session, Err: err}) || !ofOneRow(err) {
					return
				}
				continue
			}
			if r.Status != snapshot.Ended && !yield(r, nil) {
				return
			}
		}
	}
}

func (e *engine) runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	if e.Snapshots == nil {
		return func(func(snapshot.Run, error) bool) {}
	}
	return e.Snapshots.Runs(ctx, q)
}

// Abandon ends the run with runID without a turn, in any process. ended says whether such a run was in flight: a late
// "stop" does not end the next run. The owner of the run is fenced off. In this process the context of the run ends at
// once, with ErrAbandoned. In another process it ends at the owner's next call to a store or next renewal. If no such
// run is in flight, nothing is written. Effects of the run outside the stores stay.
//
// Without a snapshot store, one run cannot be told from the next. Then Abandon ends the context of the run with runID
// that this process works on, or of any run if runID is "". ended says whether there was such a run.
//
// A damaged run is deleted. If the id of the damaged run cannot be read, every runID means that run. "" means any run.
func (o *Orchestrator[S]) Abandon(ctx context.Context, session, runID string) (ended bool, err error) {
	if err := checkSession(session); err != nil {
		return false, o.adminError("abandon", session, err)
	}
	if o.Snapshots == nil {
		return o.sessions.Interrupt(session, runID, ErrAbandoned), nil
	}
	found, err := o.wanted(ctx, session, runID)
	if err != nil || found == nil {
		return false, o.adminError("abandon", session, err)
	}
	v := &visit[S]{engine: o.engine, o: o, call: o.newCall(session, nil)}
	if taken, err := v.steal(ctx, session, found.ID); err != nil || !taken {
		return false, o.adminError("abandon", session, err)
	}
	defer v.own.Done()
	ended, err = v.endRun(*found)
	return ended, o.adminError("abandon", session, err)
}

// wanted returns the run of session with an id, if it is in flight and not over; nil if there is none. "" means any
// run.
func (o *Orchestrator[S]) wanted(ctx context.Context, session, runID string) (*snapshot.Run, error) {
	found, err := o.toEnd(ctx, session)
	if err != nil || found == nil || runID != "" && found.ID != runID && found.ID != "" {
		return nil, err
	}
	return found, nil
}

// toEnd returns the run in flight, damaged or not; nil if there is none. It is for callers that end the run.
func (o *Orchestrator[S]) toEnd(ctx context.Context, session string) (*snapshot.Run, error) {
	found, err := o.inFlight(ctx, session)
	if found != nil {
		return found, nil
	}
	return nil, err
}

// Delete removes the session and its run, and fences off its owner. Deleting rows would not fence off the owner.
//
// If the store does not answer, the error is ErrIndeterminate. Delete also removes a damaged session, which refuses
// every other call with checkpoint.ErrDamaged or snapshot.ErrDamaged. If the head of a session is missing, Delete
// removes its kept turns.
func (o *Orchestrator[S]) Delete(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return o.adminError("delete", session, err)
	}
	v := &visit[S]{engine: o.engine, o: o, call: o.newCall(session, nil)}
	v.own.Buries = true
	taken, err := v.steal(ctx, session, "")
	if err != nil || !taken {
		return o.adminError("delete", session, err)
	}
	defer v.own.Done()
	return o.adminError("delete", session, v.delete())
}

// delete removes the session, after it has ended the run in flight.
func (v *visit[S]) delete() error {
	for over := false; !over; {
		found, err := v.o.toEnd(v.own.Ctx, v.own.Session)
		switch {
		case err == nil && found != nil:
			_, err = v.endRun(*found)
		case err == nil:
			_, over, err = v.bar()
		}
		if err != nil {
			return err
		}
	}
	doubt, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error { return v.store.Delete(ctx, v.own.Lease) })
	switch {
	case err == nil:
		v.own.Released()
	case doubt || !owner.Definite(err):
		err = indeterminate(err)
	}
	return err
}

// bar makes our fence known to the snapshot store: from then on a Begin of a former owner begins nothing. over says
// that no run is in flight. A run that is in flight has become ours.
func (v *visit[S]) bar() (r snapshot.Run, over bool, err error) {
	if v.Snapshots == nil {
		return r, true, nil
	}
	v.spent = true
	_, err = v.own.Persist(v.own.Ctx, func(ctx context.Context) (err error) {
		r, err = v.Snapshots.Adopt(ctx, snapshot.Key(v.own.Key), v.own.Fence, 0)
		return err
	})
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
		return r, true, nil
	case errors.Is(err, lock.ErrFenced):
		v.own.Lose(err)
	}
	return r, false, err
}

func (o *Orchestrator[S]) adminError(op, session string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && error(e) == err { //nolint:errorlint // what it wraps is the user's
		err = e.Err
	}
	return &Error{Op: op, Session: session, Err: err}
}

// steal takes the session, from its owner if it has one. With a runID, steal takes nothing if that run is no longer in
// flight: the owner may be at work on another run, and is left alone.
func (v *visit[S]) steal(ctx context.Context, id, runID string) (taken bool, err error) {
	if err := v.own.Enter(ctx, v.sessions, id); err != nil {
		return false, err
	}
	v.sessions.Interrupt(id, runID, ErrAbandoned)
	taken, err = v.own.Take(func() (bool, error) {
		if runID == "" {
			return true, nil
		}
		found, err := v.o.wanted(v.own.Ctx, id, runID)
		return found != nil, err
	})
	if err != nil || !taken {
		v.own.Undo()
		return false, err
	}
	v.granted()
	return true, nil
}

// endRun ends the run that was found, and no other run. ended says whether there was something to end.
func (v *visit[S]) endRun(found snapshot.Run) (ended bool, err error) {
	leftover, err := v.leftover(found)
	switch {
	case err != nil && !errors.Is(err, checkpoint.ErrDamaged): // a damaged turn proves nothing about the run
		return false, err
	case leftover:
		return false, v.sweepUp(found)
	}
	r, err := v.adopt(found, 0)
	switch {
	case err == nil:
		return true, v.end(r)
	case errors.Is(err, snapshot.ErrDamaged):
		return true, v.bury(r)
	case !errors.Is(err, errChanged):
		return false, err
	case r.ID == found.ID && r.Status == snapshot.Suspended: // since it was found
		return true, v.end(r)
	case r.ID != "" && r.ID != found.ID && r.Status == snapshot.Running:
		// The owner of r is fenced off all the same. So r waits for its next owner.
		r.Seq++
		r.Status, r.Payload, r.Parts = snapshot.Waiting, nil, nil
		_, err = v.own.Persist(v.own.Ctx, func(ctx context.Context) error { return v.Snapshots.Save(ctx, r) })
		return false, err
	}
	return false, nil
}

// Sweep retires what the stores no longer need: sessions that have been idle for the TTL of the checkpoint store, and
// what the snapshot store remembers of runs that ended long ago. It is for bootdrain.Options.Sweep. limit bounds how
// many of each one call retires; 0 means no limit. On Redis both expire by themselves, and Sweep removes the stale
// entries that listed the sessions.
func (o *Orchestrator[S]) Sweep(ctx context.Context, limit int) (retired int, err error) {
	for _, store := range []any{o.store, o.Snapshots} {
		s, ok := store.(interface {
			Sweep(ctx context.Context, limit int) (int, error)
		})
		if !ok {
			continue
		}
		n, err := s.Sweep(ctx, limit)
		retired = max(retired, n)
		if err != nil {
			return retired, &Error{Op: "sweep", Err: err}
		}
	}
	return retired, nil
}
