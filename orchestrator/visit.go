package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A visit is the stay of one call in a session that its process owns.
type visit struct {
	engine *engine
	call   *call
	own    owned
	slot   slot
	phases phases

	// ends says that the call is Abandon or Delete, which record no input in the turn log.
	ends bool

	// newest is the newest settled turn; nil if there is none. This and the following fields begin as the claim found
	// them, and follow what this call does. Those of own are only what the last claim found.
	newest *checkpoint.Checkpoint
	deliveries
	summarized int // turns before this one are summarized

	// mine is the run that the call is for; "" if the call is for any run in flight.
	mine string
}

// The deliveries of a visit.
type deliveries struct {
	owed int // the oldest turn that is not delivered

	// failures counts the failed deliveries of that turn.
	failures int

	// mute says that a delivery has failed, so that no other is tried. undelivered says why.
	mute        bool
	undelivered error

	// delivering is the run of the turn that was last handed over, or was to be; "" if that turn cannot be read.
	delivering string

	// swept says that the session has no finished run whose end the turn log may lack.
	swept bool
}

// emit emits an event, and marks it if it is of another run than the call's own.
func (v *visit) emit(ev Event) {
	ev.earlier = ev.RunID != v.mine && (v.mine != "" || ev.Kind == Delivered)
	ev.epoch = v.own.Grant.Fence.Epoch
	v.call.emit(ev)
}

// newVisit returns the visit of a call that does not own its session yet.
func (e *engine) newVisit(k *call) *visit {
	v := &visit{engine: e, call: k, own: owned{rows: &e.rows}}
	v.slot = slot{engine: e, own: &v.own}
	v.phases.engine, v.phases.own = e, &v.own
	return v
}

// visit makes the call the owner of its session. With wait, it waits for its turn.
func (e *engine) visit(ctx context.Context, k *call, requestID string, wait bool) (*visit, error) {
	if err := e.functions.full(); err != nil {
		return nil, &Error{Op: "claim", Session: k.session, Err: err}
	}
	v := e.newVisit(k)
	_, span := e.meters.silent.traceCall(ctx, "orchestrator.wait", k.session, "")
	err := v.own.acquire(ctx, e.sessions, k.session, requestID, wait)
	endCall(span, err)
	if err != nil {
		return nil, &Error{Op: "claim", Session: k.session, Err: err}
	}
	v.granted()
	return v, nil
}

// steal takes the session, from its owner if it has one. With a runID, steal takes nothing if that run is no longer in
// flight: the owner may be at work on another run, and is left alone.
func (v *visit) steal(ctx context.Context, runID string) (taken bool, err error) {
	e := v.engine
	if err := v.own.Enter(ctx, e.sessions, v.call.session, &v.own); err != nil {
		return false, err
	}
	e.sessions.Interrupt(v.call.session, runID, ErrAbandoned)
	taken, err = v.own.Take(func() (bool, error) {
		if runID == "" {
			return true, nil
		}
		found, err := e.wanted(v.own.Ctx, v.call.session, runID)
		return found != nil, err
	})
	if err != nil || !taken {
		v.own.Undo()
		return false, err
	}
	// A call of this process that began meanwhile is fenced off. It has to end now, not at its next renewal.
	e.sessions.Interrupt(v.call.session, runID, ErrAbandoned)
	v.granted()
	return true, nil
}

// granted copies what the claim has found.
func (v *visit) granted() {
	g := &v.own.Grant
	v.newest, v.owed, v.summarized, v.failures = g.Last, g.Delivered, g.Summarized, g.Failed
}

// upcoming is the number of the next turn to settle.
func (v *visit) upcoming() int {
	if v.newest == nil {
		return 0
	}
	return v.newest.Turn + 1
}

// owing reports whether a settled turn is not delivered.
func (v *visit) owing() bool { return v.newest != nil && v.owed <= v.newest.Turn }

// base is the run of the newest turn.
func (v *visit) base() string {
	if v.newest == nil {
		return ""
	}
	return v.newest.RunID
}

// err returns err as an error of this call.
func (v *visit) err(op string, err error) *Error {
	return &Error{Op: op, Session: v.own.Grant.Session, Turn: v.upcoming(), Err: err}
}

// refusal returns the error for a run in flight that is not touched. own says that the run is the call's own.
func (v *visit) refusal(found snapshot.Run, own bool, err error) error {
	op, drift := "begin", isDrift(err)
	if drift {
		op = "drift"
	}
	switch {
	case own && v.own.Ctx.Err() == nil && !errors.Is(err, ErrParked) && !errors.Is(err, ErrSuspended) && !ofOneRow(err):
		err = indeterminate(err) // another process may settle the run, or this one later
	case !drift:
		err = unavailable(err)
	}
	e := v.err(op, err)
	if own {
		e.RunID = found.ID
	}
	return e
}

// unlessChanged returns the error of the call for err. If the caller only has to look again, it returns nil.
func (v *visit) unlessChanged(err error) error {
	switch {
	case err == nil, errors.Is(err, errChanged):
		return nil
	case errors.Is(err, lock.ErrFenced):
		v.own.Lose(err)
	case errors.Is(err, errNotLogged):
		return v.err("log", unavailable(err))
	}
	return v.err("adopt", err)
}

// reborn gives the session the Born of the life in which an unfinished run began. The ids of the run and of its repeats
// depend on Born.
func (v *visit) reborn(found snapshot.Run) error {
	if v.newest != nil {
		return nil
	}
	if payload, err := readPayload(found); err == nil && payload.Born != v.own.Grant.Born {
		return v.slot.reclaim(payload.Born)
	}
	return nil // checkUsable says what is wrong with a payload that cannot be read
}

// meet is reborn for a run that may be finished. It comes before the id of the run is compared with another.
func (v *visit) meet(found snapshot.Run) error {
	if v.newest != nil {
		return nil
	}
	finished, _, err := v.slot.finished(found, v.newest)
	if err != nil || finished {
		return err
	}
	return v.reborn(found)
}

// sweepUp deletes a finished run. So far the settled turn was only read. A claim of an owned session is durable, and
// makes everything durable that was read before it. Without that claim, a failover of the checkpoint store could lose
// the turn while the snapshot store forgets its run. Delete removes the turn too, and the session may be damaged. by is
// the turn that has settled the run, if one has.
func (v *visit) sweepUp(found snapshot.Run, by *checkpoint.Checkpoint) error {
	if v.engine.joined == nil && found.Status != snapshot.Ended && !v.own.Buries {
		if err := v.own.claimAnew(0); err != nil {
			return v.err("claim", err)
		}
	}
	return v.unlessChanged(v.sweep(found, by))
}

// sweep deletes a finished run that was found, once the turn log has its end.
func (v *visit) sweep(found snapshot.Run, by *checkpoint.Checkpoint) error {
	r, err := v.slot.adopt(found, 0)
	if runDamaged(err) {
		if by != nil {
			err = v.phases.settled(v.own.Ctx, *by, 0, v.call.force || v.own.Buries)
			if err != nil {
				return err
			}
		}
		return v.slot.bury(r)
	}
	if err == nil && found.Status == snapshot.Ended && r.Status != snapshot.Ended {
		err = errChanged // the same input has come again since
	}
	if err == nil && v.phases.on() {
		err = v.logEnd(r, by)
	}
	if err == nil {
		err = v.slot.remove(r.ID)
	}
	if err == nil {
		v.slot.logDropped(r)
	}
	return err
}

// logEnd records the end of a finished run that is ours, and its beginning. Its owner may have died before it did.
func (v *visit) logEnd(r snapshot.Run, by *checkpoint.Checkpoint) error {
	payload, err := readPayload(r)
	if err == nil {
		v.phases.goOn(r, payload)
		cut := ""
		if v.ends {
			cut = abandonedInput
		}
		if err := v.phases.started(v.own.Ctx, r, payload, cut); err != nil {
			return err
		}
	}
	switch { // a run that cannot be read has its beginning in the turn log, as far as anybody knows
	case by != nil:
		return v.phases.settled(v.own.Ctx, *by, startedAt(r, payload), v.call.force || v.own.Buries)
	case r.Status == snapshot.Ended:
		return v.phases.ended(v.own.Ctx, r, endOf(r, payload))
	}
	end := v.phases.end(turnlog.Cancelled) // it was dropped: its session was deleted
	if err := v.slot.change(r, snapshot.Ended, ErrAbandoned.Error(), end.parts()); err != nil {
		return err
	}
	r.Error = ErrAbandoned.Error()
	return v.phases.ended(v.own.Ctx, r, end)
}

// logSettled records that a turn has settled, and reports whether it could. If it could not, the run is left, so that
// it is recorded later.
func (v *visit) logSettled(cp checkpoint.Checkpoint) bool {
	err := v.phases.settled(v.own.Ctx, cp, 0, v.call.force)
	if err != nil {
		v.engine.log.WarnContext(v.own.Ctx,
			"end of a turn not recorded in the turn log; the next call or drain records it",
			"session", v.own.Grant.Session, "turn", cp.Turn, "run", cp.RunID, v.engine.why(err))
	}
	return err == nil
}

// end saves a run of ours as ended, and deletes it once the turn log has its end. After the save no process goes on
// with the run.
func (v *visit) end(r snapshot.Run) error {
	payload, unread := readPayload(r)
	if unread == nil {
		v.phases.goOn(r, payload)
	}
	end := v.phases.end(turnlog.Cancelled)
	if err := v.slot.change(r, snapshot.Ended, ErrAbandoned.Error(), end.parts()); err != nil {
		return err
	}
	r.Error = ErrAbandoned.Error()
	var logged bool
	if unread == nil {
		logged = v.logEnded(r, payload, end, abandonedInput)
	} else { // when it has begun, and with which input, only the turn log says
		logged = v.logOver(r, v.phases.ended(v.own.Ctx, r, end))
	}
	if logged {
		v.slot.forget(r)
	}
	v.emitAbandoned(r)
	return nil
}

// bury deletes a damaged run that is ours. A time that could be stored for its end would be lost with it. So the end is
// recorded after that, and at most once.
func (v *visit) bury(r snapshot.Run) error {
	if err := v.slot.bury(r); err != nil || r.ID == "" {
		return err
	}
	r.Key, r.Error = v.own.Grant.Key, ErrAbandoned.Error()
	if err := v.phases.ended(v.own.Ctx, r, v.phases.end(turnlog.Cancelled)); err != nil {
		v.engine.log.WarnContext(v.own.Ctx, "end of a damaged run not recorded in the turn log",
			"session", r.Session, "run", r.ID, v.engine.why(err))
	}
	v.emitAbandoned(r)
	return nil
}

func (v *visit) emitAbandoned(r snapshot.Run) {
	err := &Error{Op: "abandon", Session: r.Session, Turn: r.Turn, RunID: r.ID, Err: ErrAbandoned}
	v.emit(Event{Kind: TurnFailed, RunID: r.ID, Turn: r.Turn, Err: err}.of(inputOf(r)))
}

// logEnded records the beginning and the end of a run that has not settled, and reports whether it could. If it could
// not, the run is left, so that it is recorded later. cut is as in phases.started.
func (v *visit) logEnded(r snapshot.Run, payload runPayload, end storedEnd, cut string) bool {
	if !v.phases.on() {
		return true
	}
	err := v.phases.started(v.own.Ctx, r, payload, cut)
	if err == nil {
		err = v.phases.ended(v.own.Ctx, r, end)
	}
	return v.logOver(r, err)
}

// logOver reports whether the end of a run is recorded, and logs why it is not.
func (v *visit) logOver(r snapshot.Run, err error) bool {
	if err != nil {
		v.engine.log.WarnContext(v.own.Ctx,
			"end of a run not recorded in the turn log; the next call or drain records it",
			"session", r.Session, "run", r.ID, v.engine.why(err))
	}
	return err == nil
}

// abandon ends the run of another input without a turn.
func (v *visit) abandon(found snapshot.Run) error {
	r, err := v.slot.adopt(found, 0)
	if err == nil {
		err = v.end(r)
		v.call.again()
	}
	return v.unlessChanged(err)
}

// logTakeover logs that a run goes on that its owner has left without a word. It names the owner if the session was
// taken from it. Otherwise the lease had expired.
func (v *visit) logTakeover(found, adopted snapshot.Run) {
	attrs := []any{"session", v.own.Grant.Session, "run", adopted.ID, "attempt", adopted.Attempt}
	if v.own.From != "" {
		attrs = append(attrs, "from", v.own.From, "silent_ms", v.own.Stood.Milliseconds())
	}
	if !found.SavedAt.IsZero() { // by the clock of the store
		attrs = append(attrs, "idle_ms", max(0, time.Since(found.SavedAt).Milliseconds()))
	}
	v.engine.log.InfoContext(v.own.Ctx, "run taken over from an owner that is gone", attrs...)
}

// logParked logs that a run was parked. It happens once: a run that is parked is not adopted again by those who count.
func (v *visit) logParked(r snapshot.Run) {
	attrs := []any{"session", v.own.Grant.Session, "run", r.ID, "attempts", r.Attempt, "type", failureOf(r)}
	if r.Error != "" {
		attrs = append(attrs, v.engine.textOf(errors.New(r.Error))...)
	}
	v.engine.log.WarnContext(v.own.Ctx, "run parked", attrs...)
}

// end ends a run in flight, from outside, if it is still in flight.
func (e *engine) end(ctx context.Context, found snapshot.Run) (ended bool, err error) {
	k := e.listeners.newCall(found.Session, nil)
	defer k.close(ctx)
	v := e.newVisit(k)
	v.ends = true
	if taken, err := v.steal(ctx, found.ID); err != nil || !taken {
		return false, err
	}
	defer v.own.Done()
	return v.endRun(found)
}

// endRun ends the run that was found, and no other run. ended says whether there was something to end.
func (v *visit) endRun(found snapshot.Run) (ended bool, err error) {
	finished, by, err := v.slot.finished(found, v.newest)
	switch {
	case err != nil && !errors.Is(err, store.ErrDamaged): // a damaged turn proves nothing about the run
		return false, err
	case finished:
		err = v.sweepUp(found, by)
		if errors.Is(err, ErrNoDefinition) { // its row is for a process that can record its reply
			err = nil
		}
		return false, err
	}
	r, err := v.slot.adopt(found, 0)
	switch {
	case err == nil:
		return true, v.end(r)
	case runDamaged(err):
		return true, v.bury(r)
	case !errors.Is(err, errChanged):
		return false, err
	case r.ID == found.ID && r.Status == snapshot.Suspended: // since it was found
		return true, v.end(r)
	case r.ID != "" && r.ID != found.ID && r.Status == snapshot.Running:
		// The owner of r is fenced off all the same. So r waits for its next owner.
		return false, v.slot.change(r, snapshot.Waiting, r.Error, nil)
	}
	return false, nil
}

// delete removes the session, after it has ended the run in flight.
func (v *visit) delete() error {
	for over := false; !over; {
		found, err := v.slot.find(v.own.Ctx)
		switch {
		case found != nil: // damaged or not
			_, err = v.endRun(*found)
		case err == nil:
			_, over, err = v.slot.bar()
		}
		if err != nil {
			return err
		}
	}
	doubt, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error {
		return v.engine.store.Delete(ctx, v.own.Grant.Lease)
	})
	switch {
	case err == nil:
		v.own.Released()
	case doubt || !owner.Definite(err):
		err = indeterminate(err)
	}
	return err
}

// settledTurn returns a kept turn.
func (v *visit) settledTurn(ctx context.Context, turn int) (cp checkpoint.Checkpoint, err error) {
	if v.newest.Turn == turn {
		return *v.newest, nil
	}
	err = v.engine.read(ctx, func(ctx context.Context) (err error) {
		cp, err = checkpoint.Load(ctx, v.engine.store, v.own.Grant.Key, turn)
		return err
	})
	return cp, err
}

// mark raises counters of the session.
func (v *visit) mark(m checkpoint.Marks) error {
	_, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error {
		return v.engine.store.Mark(ctx, v.own.Grant.Lease, m)
	})
	if errors.Is(err, lock.ErrFenced) {
		v.own.Lose(lock.ErrFenced)
	}
	return err
}
