package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A cause is why a flight is over without a settled turn.
type cause int

const (
	// endStuck: a function of the bot goes on although its context has ended. The engine no longer hears the function,
	// and the lease is left to expire.
	endStuck cause = iota

	// endLost: the session is no longer ours.
	endLost

	// endUnsaved: the snapshot store has not answered, or the checkpoint store may have appended the turn.
	endUnsaved

	// endCut: the context of the caller has ended. The attempt counts if a function of the bot has run since progress
	// was saved. Otherwise callers with short deadlines would repeat one step for ever.
	endCut

	// endUnrecorded: the ledger or the turn log has not answered. Nothing that the bot has said since counts.
	endUnrecorded

	// endAsking: a person has to say whether an effect has happened.
	endAsking

	// endDoubtful: an effect is in doubt, and the next attempt finds out. A turn in doubt does not fail: told as
	// failed, it would be tried again, and pay twice.
	endDoubtful

	// endFailedAlone: the bot has failed, and no caller waits. In the end the run is parked.
	endFailedAlone

	// endApology: the bot has failed, and Definition.OnFail settles the turn: with a caller at once, without one when
	// the run would be parked. See execution.fail.
	endApology

	// endFailed: the bot has failed, or no process can go on. The snapshot store has to know this before a caller does.
	endFailed
)

// How an ending changes the count of attempts at a run.
type counting int

const (
	attemptCounts counting = iota // the attempt was counted when it began
	attemptFree
	attemptIfWorked
	attemptIfNoPause // a pause that an effect asks for is not the run's fault
)

// An ending is what becomes of a run that does not settle in this flight.
type ending struct {
	name string

	// status is the run's from now on; "" if nothing is saved.
	status   snapshot.Status
	attempts counting

	// retry says that the run is due again after a pause. Without it, a Waiting run is due at once.
	retry bool

	// text says that the run keeps the text of the error.
	text bool

	// event is the last event of the flight.
	event EventKind

	// fresh says that the next attempt does not find the Pure results of this one.
	fresh bool

	// unknown says that the caller is told ErrIndeterminate: the turn may settle yet.
	unknown bool
}

// endings say how a flight is over, for each cause. If no snapshot store has the run, or the run is one of Put, no
// process can go on with it: then each of them is failed.
var endings = [...]ending{
	endStuck:   {name: "stuck", event: TurnLeft, unknown: true},
	endLost:    {name: "lost", event: TurnLeft, unknown: true},
	endUnsaved: {name: "unsaved", event: TurnLeft, unknown: true},
	endCut:     {name: "cut", status: snapshot.Waiting, attempts: attemptIfWorked, event: TurnLeft, unknown: true},
	endUnrecorded: {
		name: "unrecorded", status: snapshot.Waiting, retry: true, text: true, event: TurnLeft, unknown: true,
	},
	endAsking: {
		name: "asking", status: snapshot.Suspended, attempts: attemptFree, text: true, event: TurnSuspended,
	},
	endDoubtful: {
		name: "doubtful", status: snapshot.Waiting, attempts: attemptIfNoPause, retry: true, text: true,
		event: TurnLeft, unknown: true,
	},
	endFailedAlone: {
		name: "failed alone", status: snapshot.Waiting, retry: true, text: true, fresh: true, event: TurnLeft,
	},
	endApology: {name: "failed, and settled by OnFail", event: TurnSettled},
	endFailed:  {name: "failed", status: snapshot.Ended, text: true, fresh: true, event: TurnFailed},
}

// leave leaves the run in flight for the next caller or drain.
func (x *flight) leave(e *Error) error {
	if errors.Is(e.Err, errStuck) {
		return x.end(endStuck, e, nil)
	}
	return x.end(endCut, e, nil)
}

// notAppended ends a turn whose Append gave up. doubt says that the Append may have taken effect.
func (x *flight) notAppended(doubt bool, err error) error {
	e := x.err("settle", err)
	switch {
	case errors.Is(err, lock.ErrFenced):
		x.visit.own.Lose(lock.ErrFenced)
	case invalid(err) && !doubt:
		return x.end(x.failure(e)) // no store accepts this state
	}
	if doubt {
		e.Err = indeterminate(e.Err)
	}
	return x.end(endUnsaved, e, nil)
}

// cause returns why a turn cannot go on, its error, and the effects in doubt if they are the cause.
func (x *flight) cause(err error) (cause, *Error, *InDoubtError) {
	e := x.mine(err)
	failure := x.effects.book.failure()
	switch {
	case errors.Is(err, errStuck):
		return endStuck, e, nil
	case x.visit.own.Lost() != nil:
		e.Err = x.visit.own.Lost()
		return endLost, e, nil
	case x.ctx.Err() != nil:
		e.Err = ctxcause.Of(x.ctx)
		return endCut, e, nil
	case errors.Is(err, errNotSaved):
		return endUnsaved, e, nil
	case failure != nil:
		e.Err = failure
		return endUnrecorded, e, nil
	}
	if d := x.effects.inDoubt(e.Err); d != nil && x.run.inStore {
		return x.doubted(e, d)
	}
	return x.failure(e)
}

// doubted is cause for a turn whose effects are in doubt.
func (x *flight) doubted(e *Error, d *InDoubtError) (cause, *Error, *InDoubtError) {
	e.Err = d
	if !d.Ask {
		return endDoubtful, e, d
	}
	if err := x.effects.closeEffects(); err != nil {
		e.Err = err
		return endUnrecorded, e, nil
	}
	return endAsking, e, d
}

// failure is cause for a turn that the bot, or a store that accepts no such turn, has failed.
func (x *flight) failure(e *Error) (cause, *Error, *InDoubtError) {
	switch {
	case !x.run.inStore:
		return endFailed, e, nil
	case x.visit.call.alone && !(x.visit.call.queued && x.lastTry()):
		return endFailedAlone, e, nil
	}
	d, err := x.effects.unknown(e)
	switch {
	case err != nil:
		x.effects.book.fail(err)
		e.Err = err
		return endUnrecorded, e, nil
	case d != nil:
		d.Err = errors.Join(e.Err, d.Err)
		return x.doubted(e, d)
	}
	return endFailed, e, nil
}

// lastTry reports whether the run would be parked if it failed. A run whose input has waited in the queue fails for
// good then, since the inputs behind it wait.
func (x *flight) lastTry() bool { return x.run.row.Attempt >= x.limits().Attempts }

// end ends the flight as the table says. d are the effects in doubt, if they are the cause.
func (x *flight) end(why cause, e *Error, d *InDoubtError) error {
	if why == endStuck {
		x.kill()
	}
	defer x.effects.finish(x.ctx)
	x.effects.notBegun()
	how := &endings[why]
	if !x.run.inStore && (how.status != "" || !errors.Is(e.Err, ErrIndeterminate)) {
		how = &endings[endFailed]
	}
	if how.status == snapshot.Ended {
		return x.ended(e)
	}
	unknown := how.unknown && x.run.inStore || x.visit.call.queued && why == endFailedAlone
	if how.status != "" {
		if err := x.saveEnding(how, e, d); err != nil {
			e.Err, unknown = fmt.Errorf("%w: %w", e.Err, err), unknown || why == endAsking
			how = &endings[endUnsaved]
		} else if why == endAsking {
			e.Err = fmt.Errorf("%w: %w", ErrSuspended, d)
			attrs := []any{
				"session", x.visit.own.Grant.Session, "turn", x.index, "run", x.run.row.ID, "effects", d.Effects,
			}
			if d.unasked { // else the answer of a person is all that is missing
				attrs = append(attrs, "err", errUnasked.Error())
			}
			x.logger().InfoContext(x.ctx, "turn suspended", attrs...)
		}
	}
	if unknown {
		e.Err = indeterminate(e.Err)
	}
	x.emit(Event{Kind: how.event, Usage: e.Usage, Err: e})
	return e
}

// ended ends the turn for good. If the snapshot store does not take the end, the run is left.
func (x *flight) ended(e *Error) error {
	if x.run.inStore {
		end, reason := x.visit.phases.end(x.turnState(e)), x.errorText(e.Err)
		err := x.run.amend(x.ctx, end.parts(), func(r *snapshot.Run) { r.Status, r.Error = snapshot.Ended, reason })
		if err != nil {
			e.Err = fmt.Errorf("%w: %w", err, e.Err)
			return x.end(endUnsaved, e, nil)
		}
		if x.logFailed(end, reason) {
			x.run.slot.forget(x.run.row)
		}
	}
	_ = x.visit.own.TurnOver()
	if !x.run.inStore {
		_ = x.effects.closeEffects() // if the ledger is away, the same request id again adopts them
		x.logFailed(x.visit.phases.end(x.turnState(e)), x.errorText(e.Err))
	}
	x.visit.own.Begun = x.input.RequestID != "" // the same request id again is the same run, and needs the same life
	attrs := []any{
		"session", x.visit.own.Grant.Session, "turn", x.index, "run", x.run.row.ID, "op", e.Op, "intent", e.Intent,
		"type", errorType(e),
	}
	text := x.engine().textOf(redactedError{x.errorText(e.Err), e.Err})
	x.logger().WarnContext(x.ctx, "turn failed", append(attrs, text...)...)
	x.emit(Event{Kind: TurnFailed, Usage: e.Usage, Err: e})
	return e
}

// saveEnding saves what the table says of the run.
func (x *flight) saveEnding(how *ending, e *Error, d *InDoubtError) error {
	var pause time.Duration
	var reason string
	if d != nil {
		pause = d.pause
	}
	var back bool
	switch how.attempts {
	case attemptFree:
		back = true
	case attemptIfWorked:
		back = !x.worked
	case attemptIfNoPause:
		back = pause > 0
	}
	if how.retry && pause == 0 {
		pause = backoff(x.run.row.Attempt)
	}
	if how.text {
		reason = x.errorText(e.Err)
	}
	change := func(r *snapshot.Run) {
		r.Status, r.Error, r.Pause = how.status, reason, pause
		if back {
			r.Attempt = max(0, r.Attempt-1)
		}
	}
	if how.status == snapshot.Suspended {
		return x.noteDoubt(d, change)
	}
	if pause == 0 { // another process may go on at once
		x.visit.phases.catchUp()
	}
	parts := failureParts(reason, e)
	if how.fresh { // the next attempt is not given what a model has said in this one
		x.run.payload.Failures++
		parts = maps.Clone(parts)
		if parts == nil {
			parts = make(map[string]json.RawMessage)
		}
		parts[failuresPart] = json.RawMessage(strconv.Itoa(x.run.payload.Failures))
	}
	return x.run.noteBranches(x.ctx, parts, change)
}

// noteDoubt saves the run anew, with the effects that it waits for, the decision that has led to them, and the branches
// that have finished.
func (x *flight) noteDoubt(d *InDoubtError, change func(*snapshot.Run)) error {
	payload := x.run.saved().payload
	payload.Doubt, payload.Unasked = d.Effects, d.unasked
	payload.Logged = max(payload.Logged, x.visit.phases.newest()) // a person may answer at once
	x.run.decision.Load().into(&payload)
	parts, err := x.run.allParts(&payload)
	if err == nil {
		err = x.run.suspend(x.ctx, payload, parts, change)
	}
	if err != nil && (invalid(err) || parts == nil) { // no store accepts the branches: they run again
		err = x.run.suspend(x.ctx, payload, nil, change)
	}
	return err
}

// errorText returns the text of an error of the turn, as the run keeps it.
func (x *flight) errorText(err error) string {
	kept, failed := x.effects.redacted(ledger.Effect{
		Orchestrator: x.engine().identity.name, Session: x.visit.own.Grant.Session, RunID: x.run.row.ID,
		Error: errorText(err),
	})
	if failed != nil {
		return redactPanicked
	}
	return errorText(errors.New(kept.Error))
}
