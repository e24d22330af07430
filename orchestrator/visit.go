package orchestrator

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A visit is the stay of one call in a session that it owns.
type visit[S any] struct {
	*engine
	own  owner.Session
	o    *Orchestrator[S]
	call *call

	// last is the newest settled turn; nil if there is none.
	last *checkpoint.Checkpoint
	owed int // the oldest turn that is not delivered

	// mute says that a delivery has failed, so that no other is tried.
	mute bool

	// spent says that no run can begin under our fence any more.
	spent      bool
	summarized int // turns before this one are summarized

	// failedDeliveries counts the failures of the oldest turn that is not delivered.
	failedDeliveries int
}

func (o *Orchestrator[S]) visit(ctx context.Context, k *call, requestID string, wait bool) (*visit[S], error) {
	v := &visit[S]{engine: o.engine, o: o, call: k}
	if err := o.full(); err != nil {
		return nil, &Error{Op: "claim", Session: k.session, Err: err}
	}
	if err := v.own.Acquire(ctx, o.sessions, k.session, requestID, wait); err != nil {
		return nil, &Error{Op: "claim", Session: k.session, Err: err}
	}
	v.granted()
	return v, nil
}

// granted copies what the claim has found.
func (v *visit[S]) granted() {
	v.last, v.owed, v.summarized, v.failedDeliveries = v.own.Last, v.own.Delivered, v.own.Summarized, v.own.Failed
}

// next is the number of the next turn to settle.
func (v *visit[S]) next() int {
	if v.last == nil {
		return 0
	}
	return v.last.Turn + 1
}

func (v *visit[S]) base() string {
	if v.last == nil {
		return ""
	}
	return v.last.RunID
}

func (v *visit[S]) fail(op string, err error) *Error {
	return &Error{Op: op, Session: v.own.Session, Turn: v.next(), Err: err}
}

// An outcome says how a run that was in flight ended.
type outcome[S any] struct {
	// own says that the run is the call's own: its outcome is the outcome of the call.
	own bool
	res *Result[S]
	err error
}

// giveWay handles the run in flight, so that the run of f can begin. If f is nil, the call is to finish the run that
// was found.
func (v *visit[S]) giveWay(found snapshot.Run, f *flight[S]) (outcome[S], error) {
	leftover, err := v.leftover(found)
	if err == nil && !leftover {
		err = v.reborn(found, f)
	}
	if err != nil {
		return outcome[S]{}, v.fail("begin", err)
	}
	own := f == nil || found.ID == f.id
	if leftover {
		return outcome[S]{}, v.sweepUp(found)
	}
	abandon := !own && v.OnInterrupted == AbandonFirst
	err = v.o.usable(found, v.call.force, v.call.force || f != nil && v.OnInterrupted == AbandonFirst)
	switch {
	case !own && f.input.RequestID != "" && found.RequestID == f.input.RequestID:
		err = ErrRequestReused
	case err == nil && !own && v.OnInterrupted == Reject:
		err = ErrInterrupted
	}
	if err != nil {
		if own && errors.Is(err, ErrSuspended) {
			v.call.emit(Event{Kind: TurnSuspended, RunID: found.ID, Turn: found.Turn, Err: err})
		}
		return outcome[S]{}, v.refuse(found, own, err)
	}
	if abandon {
		return outcome[S]{}, v.abandon(found)
	}
	return v.takeUp(found, own, f)
}

// refuse returns the error for a run in flight that is not touched.
func (v *visit[S]) refuse(found snapshot.Run, own bool, err error) error {
	op := "begin"
	if isDrift(err) {
		op = "drift"
	}
	if !own {
		return v.fail(op, err)
	}
	if isDrift(err) {
		err = indeterminate(err) // another process, which knows the definition, may settle the run
	}
	e := v.fail(op, err)
	e.RunID = found.ID
	return e
}

// usable returns why an unfinished run cannot continue in this process. It only reads.
func (o *Orchestrator[S]) usable(r snapshot.Run, force, pastParked bool) error {
	m, err := o.readMemo(r)
	if err == nil {
		err = o.foreign(m.Signature, force)
	}
	switch {
	case err != nil:
		return err
	case r.Status == snapshot.Suspended:
		return ErrSuspended
	case r.Status == snapshot.Parked && !pastParked:
		return ErrParked
	}
	return nil
}

// leftover reports whether r is a finished run. A run is finished if its status is Ended, or if a kept turn has settled
// it. It is also finished if it is of an earlier life of the session, unless it continues in this life: see retired.
// The turn number of a run proves nothing: another run may have settled that turn.
func (v *visit[S]) leftover(r snapshot.Run) (bool, error) {
	if r.Status == snapshot.Ended {
		return true, nil
	}
	if m, err := decodeMemo(r); err == nil && m.Born != v.own.Born && !v.retired(r, m) {
		return true, nil
	}
	if v.last == nil || v.last.Turn < r.Turn || v.last.RunID == r.ID {
		return v.last != nil && v.last.RunID == r.ID, nil
	}
	return v.kept(v.own.Ctx, r, v.last.Turn-1)
}

// retired reports whether a run is of an earlier life of the session that was retired because no turn was settled in
// it. The run lost nothing, and goes on. If the session had been deleted instead, Delete would have ended the run,
// unless the run's Begin came after the Delete. A life that ended within one lease was not retired.
func (v *visit[S]) retired(r snapshot.Run, m memo) bool {
	return v.last == nil && r.Base == "" && v.own.Born-m.Born >= v.Limits.LeaseTTL.Microseconds()
}

// reborn gives the session the Born of the life in which its run began. The ids of the run and of its repeats depend on
// Born.
func (v *visit[S]) reborn(r snapshot.Run, f *flight[S]) error {
	if v.last != nil {
		return nil
	}
	if m, err := decodeMemo(r); err == nil && m.Born != v.own.Born {
		return v.bear(m.Born, f)
	}
	return nil // usable says what is wrong with a payload that cannot be read
}

// meet is reborn for a run that is not over, before its id is compared with that of f.
func (v *visit[S]) meet(found snapshot.Run, f *flight[S]) error {
	if v.last != nil {
		return nil
	}
	over, err := v.leftover(found)
	if err != nil || over {
		return err
	}
	return v.reborn(found, f)
}

// bear claims the session from ourselves, with another Born.
func (v *visit[S]) bear(born int64, f *flight[S]) error {
	if err := v.own.ClaimAnew(born); err != nil {
		return err
	}
	v.spent = false
	if f != nil {
		f.renamed()
	}
	return nil
}

// kept reports whether a kept turn is the settled turn of r. It searches downwards from the given turn, and stops below
// r.Turn: those turns existed before r began.
func (e *engine) kept(ctx context.Context, r snapshot.Run, from int) (bool, error) {
	for cp, err := range e.store.Turns(ctx, checkpoint.Key(r.Key), from) {
		switch {
		case err != nil:
			return false, err
		case cp.RunID == r.ID:
			return true, nil
		case cp.Turn <= r.Turn:
			return false, nil
		}
	}
	return false, nil
}

// errChanged says that the run in flight is no longer the run that was shown.
var errChanged = errors.New("another run is in flight")

// adopt makes the run ours. Nothing of the run is used before that.
func (v *visit[S]) adopt(found snapshot.Run, attempts int) (r snapshot.Run, err error) {
	if err := v.own.Lost(); err != nil {
		return r, err
	}
	v.spent = true
	_, err = v.own.Persist(v.own.Ctx, func(ctx context.Context) (err error) {
		r, err = v.Snapshots.Adopt(ctx, snapshot.Key(v.own.Key), v.own.Fence, attempts)
		return err
	})
	switch {
	case errors.Is(err, snapshot.ErrNotFound), err == nil && r.ID != found.ID:
		return r, errChanged
	case errors.Is(err, lock.ErrFenced):
		v.own.Lose(err)
	case err == nil && r.Status != found.Status && (r.Status == snapshot.Ended || r.Status == snapshot.Suspended):
		return r, errChanged
	}
	return r, err
}

// sweepUp deletes a finished run. So far the settled turn was only read. A claim of an owned session is durable, and
// makes everything durable that was read before it. Without that claim, a failover of the checkpoint store could lose
// the turn while the snapshot store forgets its run.
func (v *visit[S]) sweepUp(found snapshot.Run) error {
	if v.joined == nil && found.Status != snapshot.Ended {
		if err := v.own.ClaimAnew(0); err != nil {
			return v.fail("claim", err)
		}
	}
	r, err := v.adopt(found, 0)
	if err == nil && found.Status == snapshot.Ended && r.Status != snapshot.Ended {
		err = errChanged // the same input has come again since
	}
	switch {
	case err == nil:
		_, err = v.own.Persist(v.own.Ctx, func(ctx context.Context) error {
			return v.Snapshots.Delete(ctx, snapshot.Key(v.own.Key), r.ID, v.own.Fence)
		})
	case errors.Is(err, snapshot.ErrDamaged):
		return v.unlessChanged(v.bury(r))
	}
	if err == nil {
		v.meters.inFlight(-1)
		v.logDropped(r)
	}
	return v.unlessChanged(err)
}

// bury deletes a damaged run that is ours. No process can go on with the run, so nothing needs to be saved before.
func (v *visit[S]) bury(r snapshot.Run) error {
	id := cmp.Or(r.ID, "unknown") // the store takes it for any id
	_, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error {
		return v.Snapshots.Delete(ctx, snapshot.Key(v.own.Key), id, v.own.Fence)
	})
	if err == nil {
		v.meters.inFlight(-1)
		v.Logger.WarnContext(v.own.Ctx, "damaged run deleted", "session", v.own.Session, "run", r.ID)
	}
	return err
}

// logDropped logs that a run was dropped because its session was deleted.
func (v *visit[S]) logDropped(r snapshot.Run) {
	if m, err := decodeMemo(r); err == nil && m.Born != v.own.Born && r.Status != snapshot.Ended {
		v.Logger.ErrorContext(v.own.Ctx, "run dropped: its session was deleted, or retired by Sweep, and began anew",
			"session", v.own.Session, "run", r.ID)
	}
}

// freshFence claims the session from ourselves if no run may begin under our fence any more. By the fence a snapshot
// store recognizes a late copy of a Begin.
func (v *visit[S]) freshFence() error {
	if !v.spent {
		return nil
	}
	if err := v.own.ClaimAnew(0); err != nil {
		return v.fail("claim", err)
	}
	v.spent = false
	return nil
}

// unlessChanged returns the error of the call for err. If the caller only has to look again, it returns nil.
func (v *visit[S]) unlessChanged(err error) error {
	switch {
	case err == nil, errors.Is(err, errChanged):
		return nil
	case errors.Is(err, lock.ErrFenced):
		v.own.Lose(err)
	}
	return v.fail("adopt", err)
}

// abandon ends the run of another input without a turn.
func (v *visit[S]) abandon(found snapshot.Run) error {
	r, err := v.adopt(found, 0)
	if err == nil {
		err = v.end(r)
	}
	return v.unlessChanged(err)
}

// end saves a run of ours as ended, and deletes it. After the save no process goes on with the run.
func (v *visit[S]) end(r snapshot.Run) error {
	r.Seq++
	r.Status, r.Error = snapshot.Ended, ErrAbandoned.Error()
	r.Payload, r.Parts = nil, nil // nil keeps what is stored
	if _, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error {
		return v.Snapshots.Save(ctx, r)
	}); err != nil {
		return err
	}
	v.forget(r)
	return nil
}

// forget deletes a finished run. If that fails, the next call that finds the run sees that it is over.
func (v *visit[S]) forget(r snapshot.Run) {
	err := v.own.Once(v.own.Ctx, func(ctx context.Context) error {
		return v.Snapshots.Delete(ctx, snapshot.Key(v.own.Key), r.ID, r.Fence)
	})
	switch {
	case err == nil:
		v.meters.inFlight(-1)
	case !errors.Is(err, lock.ErrFenced):
		v.Logger.WarnContext(v.own.Ctx, "run not deleted; it is found later",
			"session", v.own.Session, "run", r.ID, v.why(err))
	}
}

// takeUp finishes a run in flight. The run is the call's own, or the run of an earlier input, whose failure ends only
// itself.
func (v *visit[S]) takeUp(found snapshot.Run, own bool, f *flight[S]) (outcome[S], error) {
	forced := v.call.force || own && found.Status == snapshot.Parked
	attempts := v.Limits.Attempts
	if forced {
		attempts = 0
	}
	r, err := v.adopt(found, attempts)
	if errors.Is(err, errChanged) {
		return outcome[S]{}, nil
	}
	if err != nil {
		if own && !errors.Is(err, ErrParked) {
			err = indeterminate(err)
		}
		e := v.fail("adopt", err)
		if own {
			e.RunID = found.ID
		}
		return outcome[S]{}, e
	}
	if forced {
		r.Attempt = 1
	}
	g := v.resumed(r)
	if own && f != nil {
		g.ctx, g.tracer = f.ctx, f.tracer
	}
	out := outcome[S]{own: own}
	if out.err = g.ready(); out.err == nil {
		out.res, out.err = g.finish(own)
	}
	if own {
		return out, nil
	}
	switch {
	case out.err == nil:
		err = v.own.Lost()
	case errors.Is(out.err, ErrIndeterminate):
		err = outside(out.err)
	}
	if err != nil {
		v.call.again()
		return outcome[S]{}, v.fail("adopt", fmt.Errorf("%w: %w", ErrInterrupted, err))
	}
	return out, nil
}
