package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Turns yields the kept turns, newest first. One that cannot be read, of another definition for example, ends it with an error.
func (o *Orchestrator[S]) Turns(ctx context.Context, session string) iter.Seq2[*Result[S], error] {
	return func(yield func(*Result[S], error) bool) {
		fail := func(turn int, err error) {
			yield(nil, &Error{Op: "turns", Session: session, Turn: turn, Err: err})
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
			if err != nil {
				fail(cp.Turn, err)
				return
			}
			if !yield(res, nil) {
				return
			}
		}
	}
}

// Runs yields the runs in flight, suspended and parked; none without a snapshot store.
func (o *Orchestrator[S]) Runs(ctx context.Context) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range o.runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: o.name}}) {
			if err != nil {
				yield(r, &Error{Op: "runs", Session: r.Session, Err: err})
				return
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

// Abandon ends the run of session without a turn, wherever it runs: its owner is fenced off, and its context ends with
// ErrAbandoned in this process, or at its next call to a store or renewal in another. If no run is in flight, nothing is
// written. Its effects stay in the world.
func (o *Orchestrator[S]) Abandon(ctx context.Context, session string) error {
	found, err := o.look(ctx, session)
	if err == nil && o.Snapshots == nil {
		o.work.interrupt(session, ErrAbandoned)
	}
	if err != nil || found == nil {
		return o.adminError("abandon", session, err)
	}
	v, err := o.steal(ctx, session)
	if err != nil {
		return o.adminError("abandon", session, err)
	}
	defer v.done()
	return o.adminError("abandon", session, v.endRun(*found))
}

// Delete removes the session and its run, and fences off whoever is at work on it, which deleting rows would not.
func (o *Orchestrator[S]) Delete(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return o.adminError("delete", session, err)
	}
	v, err := o.steal(ctx, session)
	if err != nil {
		return o.adminError("delete", session, err)
	}
	defer v.done()
	for {
		found, err := o.look(ctx, session)
		if err == nil && found != nil {
			err = v.endRun(*found)
		}
		if err != nil {
			return o.adminError("delete", session, err)
		}
		if found == nil {
			break
		}
	}
	again := false
	_, err = v.persist(v.ctx, func(ctx context.Context) error {
		if again { // the first one may have arrived, and the session live again
			if lost, err := v.store.Renew(ctx, v.Limits.LeaseTTL, []checkpoint.Lease{v.Lease}); err != nil || len(lost) > 0 {
				return err
			}
		}
		again = true
		return v.store.Delete(ctx, v.Key)
	})
	if err == nil {
		v.released()
	}
	return o.adminError("delete", session, err)
}

// look returns the run in flight.
func (o *Orchestrator[S]) look(ctx context.Context, session string) (*snapshot.Run, error) {
	if err := checkSession(session); err != nil {
		return nil, err
	}
	return o.inFlight(ctx, session)
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

// steal takes the session from whoever owns it, without waiting.
func (o *Orchestrator[S]) steal(ctx context.Context, id string) (*visit[S], error) {
	v := &visit[S]{o: o, call: o.newCall(id, nil)}
	if err := v.enter(ctx, o.engine, id); err != nil {
		return nil, err
	}
	o.work.interrupt(id, ErrAbandoned)
	r := checkpoint.ClaimRequest{Owner: o.owner, Nonce: rand.Text(), TTL: o.Limits.LeaseTTL, Steal: true}
	if err := v.claim(v.ctx, r); err != nil {
		v.undo()
		return nil, err
	}
	v.granted()
	return v, nil
}

// endRun ends the run that was found, and no other.
func (v *visit[S]) endRun(found snapshot.Run) error {
	leftover, err := v.leftover(found)
	switch {
	case err != nil:
		return err
	case leftover:
		return v.sweepUp(found)
	}
	r, err := v.adopt(found, 0)
	switch {
	case err == nil:
		return v.end(r)
	case !errors.Is(err, errChanged):
		return err
	case r.ID != "" && r.ID != found.ID && r.Status == snapshot.Running: // its owner is fenced off all the same, so that somebody has to go on with it
		r.Seq++
		r.Status = snapshot.Waiting
		_, err = v.persist(v.ctx, func(ctx context.Context) error { return v.Snapshots.Save(ctx, r) })
		return err
	}
	return nil
}
