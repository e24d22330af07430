package orchestrator

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
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
	}
	return x.fail(e)
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
	err := x.note(nil, func(r *snapshot.Run) { r.Status, r.Error = snapshot.Ended, errorText(e.Err) })
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", err, e.Err)
		return x.left(e)
	}
	x.run.slot.forget(x.run.row)
	return x.failed(e)
}

func (x *execution[S]) failed(e *Error) error {
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
		r.Status, r.Error, r.Pause = snapshot.Waiting, errorText(e.Err), pause
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
	parts, err := x.unsavedParts()
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

// cleanText replaces the bytes that no store accepts.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// errorText returns the text of an error, as long as a stored run may have it.
func errorText(err error) string {
	text := cleanText(err.Error())
	if len(text) > snapshot.MaxError {
		text = strings.ToValidUTF8(text[:snapshot.MaxError], "")
	}
	return text
}
