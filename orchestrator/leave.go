package orchestrator

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// notAppended returns the error of an Append that gave up. doubt says that the Append may have taken effect.
func (x *execution[S]) notAppended(doubt bool, err error) error {
	e := x.err("settle", err)
	switch {
	case errors.Is(err, lock.ErrFenced):
		x.visit.own.Lose(lock.ErrFenced)
	case invalid(err) && !doubt:
		return x.fail(e) // no store accepts this state
	}
	if doubt {
		e.Err = indeterminate(e.Err)
	}
	return x.left(e)
}

// unsettled ends a turn that cannot go on. If the failure is the bot's, and no other process can settle the turn, the
// turn fails. Otherwise its run is left in flight.
func (x *execution[S]) unsettled(err error) error {
	e := x.mine(err)
	switch {
	case errors.Is(err, errStuck):
		return x.leave(e)
	case x.visit.own.Lost() != nil:
		e.Err = x.visit.own.Lost()
		return x.left(e)
	case x.ctx.Err() != nil:
		e.Err = ctxcause.Of(x.ctx)
		return x.leave(e)
	case errors.Is(err, errNotSaved):
		return x.left(e)
	case x.effects.failure() != nil:
		return x.unrecorded(e, x.effects.failure())
	}
	if d := x.inDoubt(e.Err); d != nil && x.run.inStore {
		return x.doubted(e, d)
	}
	return x.fail(e)
}

// unrecorded ends a turn whose effects the ledger did not take because of err. Nothing that the bot has said since
// counts.
func (x *execution[S]) unrecorded(e *Error, err error) error {
	e.Err = err
	if !x.run.inStore {
		return x.failed(e)
	}
	return x.wait(e, 0)
}

// doubted ends a turn whose effects are in doubt. It does not fail: told as failed, it would be tried again, and pay
// twice.
func (x *execution[S]) doubted(e *Error, d *InDoubtError) error {
	e.Err = d
	if d.Ask {
		return x.suspend(e, d)
	}
	return x.wait(e, d.pause)
}

// wait leaves a run in flight that is due again after a pause. If the pause is given, it is not the run's fault, and no
// attempt is counted.
func (x *execution[S]) wait(e *Error, pause time.Duration) error {
	attempt := x.run.row.Attempt
	if pause > 0 {
		attempt = max(0, attempt-1)
	} else {
		pause = backoff(attempt)
	}
	err := x.noteBranches(func(r *snapshot.Run) {
		r.Status, r.Attempt, r.Error, r.Pause = snapshot.Waiting, attempt, x.errorText(e.Err), pause
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
	}
	return x.left(e)
}

// suspend leaves a run in flight until a person has answered for its effects. No attempt is counted.
func (x *execution[S]) suspend(e *Error, d *InDoubtError) error {
	if err := x.closeEffects(); err != nil {
		return x.unrecorded(e, err)
	}
	err := x.noteDoubt(d, func(r *snapshot.Run) {
		r.Status, r.Attempt, r.Error = snapshot.Suspended, max(0, x.run.row.Attempt-1), x.errorText(e.Err)
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
		return x.left(e)
	}
	e.Err = fmt.Errorf("%w: %w", ErrSuspended, d)
	x.logger().InfoContext(x.ctx, "turn suspended", "session", x.visit.own.Grant.Session, "turn", x.index,
		"run", x.run.row.ID, "effects", d.Effects)
	x.emit(Event{Kind: TurnSuspended, Usage: e.Usage, Err: e})
	return e
}

// noteDoubt saves the run anew, with the effects that it waits for, the decision that has led to them, and the branches
// that have finished.
func (x *execution[S]) noteDoubt(d *InDoubtError, change func(*snapshot.Run)) error {
	payload := x.run.saved().payload
	payload.Doubt, payload.Unasked = d.Effects, d.unasked
	payload.Logged = max(payload.Logged, x.visit.phases.newest()) // a person may answer at once
	x.decision.Load().into(&payload)
	parts, err := x.allParts(&payload)
	if err == nil {
		err = x.run.suspend(x.ctx, x.used(), payload, parts, change)
	}
	if err != nil && (invalid(err) || parts == nil) { // no store accepts the branches: they run again
		err = x.run.suspend(x.ctx, x.used(), payload, nil, change)
	}
	return err
}

// fail ends the turn for good. The snapshot store has to know this before a caller does. If no caller waits, the run is
// tried again later.
func (x *execution[S]) fail(e *Error) error {
	if !x.run.inStore {
		return x.failed(e)
	}
	if x.visit.call.alone {
		return x.retryLater(e)
	}
	d, err := x.unknown(e)
	switch {
	case err != nil:
		x.effects.fail(err)
		return x.unrecorded(e, err)
	case d != nil:
		d.Err = errors.Join(e.Err, d.Err)
		return x.doubted(e, d)
	}
	end, reason := x.visit.phases.end(x.turnState(e)), x.errorText(e.Err)
	err = x.note(end.parts(), func(r *snapshot.Run) { r.Status, r.Error = snapshot.Ended, reason })
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", err, e.Err)
		return x.left(e)
	}
	if x.logFailed(end, reason) {
		x.run.slot.forget(x.run.row)
	}
	return x.failed(e)
}

func (x *execution[S]) failed(e *Error) error {
	_ = x.visit.own.TurnOver()
	if !x.run.inStore {
		_ = x.closeEffects() // if the ledger is away, the same request id again adopts them
		x.logFailed(x.visit.phases.end(x.turnState(e)), x.errorText(e.Err))
	}
	x.visit.own.Begun = x.input.RequestID != "" // the same request id again is the same run, and needs the same life
	x.logger().InfoContext(x.ctx, "turn failed", "session", x.visit.own.Grant.Session, "turn", x.index,
		"run", x.run.row.ID, "op", e.Op, "intent", e.Intent, "type", errorType(e))
	x.emit(Event{Kind: TurnFailed, Usage: e.Usage, Err: e})
	return e
}

// retryLater leaves a run that failed while no caller waits. The run is due again after a pause, and is parked in the
// end.
func (x *execution[S]) retryLater(e *Error) error {
	pause := backoff(x.run.row.Attempt)
	err := x.noteBranches(func(r *snapshot.Run) {
		r.Status, r.Error, r.Pause = snapshot.Waiting, x.errorText(e.Err), pause
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", err, e.Err)
	}
	x.emit(Event{Kind: TurnLeft, Usage: e.Usage, Err: e})
	return e
}

// noteBranches saves a change of the run, and the branches that have finished since the last save. If no store accepts
// the branches, they run again.
func (x *execution[S]) noteBranches(change func(*snapshot.Run)) error {
	saved := x.run.saved()
	parts, err := x.unsavedParts(&saved.payload)
	if err != nil {
		return errors.Join(err, x.note(nil, change))
	}
	err = x.note(parts, change)
	if invalid(err) {
		err = x.note(nil, change)
	}
	return err
}

// leave leaves the run in flight for the next caller or drain, which may begin at once. If a function of the bot has
// run since progress was saved, the attempt counts. Otherwise callers with short deadlines would repeat one step for
// ever.
func (x *execution[S]) leave(e *Error) error {
	if errors.Is(e.Err, errStuck) {
		x.giveUp()
		return x.left(e)
	}
	if !x.run.inStore {
		return x.failed(e)
	}
	x.visit.phases.catchUp()
	err := x.noteBranches(func(r *snapshot.Run) {
		r.Status, r.Attempt = snapshot.Waiting, x.run.row.Attempt
		if !x.worked {
			r.Attempt = max(0, r.Attempt-1)
		}
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
	}
	return x.left(e)
}

// giveUp is for a function of the bot that goes on although its context has ended. The engine no longer hears the
// function, and the lease is left to expire.
func (x *execution[S]) giveUp() {
	x.meter.kill()
	x.visit.own.Lose(errStuck)
}

// left ends a turn that may still settle: its run is in flight, or the reply to an Append was lost.
func (x *execution[S]) left(e *Error) error {
	if x.run.inStore {
		e.Err = indeterminate(e.Err)
	}
	if !errors.Is(e.Err, ErrIndeterminate) {
		return x.failed(e)
	}
	x.emit(Event{Kind: TurnLeft, Usage: e.Usage, Err: e})
	return e
}

// errorText returns the text of an error of the turn, as the run keeps it.
func (x *execution[S]) errorText(err error) string {
	kept, failed := x.redacted(ledger.Effect{
		Orchestrator: x.engine().identity.name, Session: x.visit.own.Grant.Session, RunID: x.run.row.ID,
		Error: errorText(err),
	})
	if failed != nil {
		return redactPanicked
	}
	return errorText(errors.New(kept.Error))
}
