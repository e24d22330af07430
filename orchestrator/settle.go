package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// settle appends the turn. Once settle has begun, it goes on even if the caller's context ends.
func (f *flight[S]) settle() (*Result[S], error) {
	if err := f.own.Lost(); err != nil {
		return nil, f.unsettled(f.err("settle", err))
	}
	cp, err := f.checkpoint()
	if err != nil {
		return nil, f.fail(f.err("settle", err))
	}
	owes, more := f.o.def.Deliver != nil, f.more()
	o := checkpoint.AppendOptions{Keep: f.KeepSnapshots, Owes: owes, Release: !owes && !more, Fresh: true}
	f.own.Keep() // an appended turn is never taken back, even if its reply is lost
	doubt, err := f.own.Persist(f.ctx, func(ctx context.Context) error { return f.append(ctx, cp, o) })
	if errors.Is(err, checkpoint.ErrConflict) {
		return f.asKept(cp, o, doubt, err)
	}
	if err != nil {
		return nil, f.notAppended(doubt || !owner.Definite(err), err)
	}
	cp.SavedAt = time.Now().UTC()
	f.meters.owes(owing(o))
	f.settled(&cp, o, more)
	return &Result[S]{
		Session: f.own.Session, RunID: f.id, Turn: f.index, Input: f.input, State: f.state,
		Steps: steps(f.memo.Steps), Usage: f.meter.total(), SavedAt: cp.SavedAt,
	}, nil
}

// append appends the turn. If both stores are one database, it deletes the run in the same transaction: then no crash
// leaves behind a run that has settled.
func (f *flight[S]) append(ctx context.Context, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) error {
	if !f.recorded || f.joined == nil {
		return f.store.Append(ctx, f.own.Lease, cp, o)
	}
	forgotten, err := f.joined(ctx, f.own.Lease, cp, o)
	if forgotten {
		f.recorded = false
		f.meters.inFlight(-1)
	}
	return err
}

// more reports whether this call needs the session after the settle and the delivery.
func (f *flight[S]) more() bool { return !f.final || f.mayCompact(f.index) }

// owing is the number of deliveries that an Append adds.
func owing(o checkpoint.AppendOptions) int64 {
	if o.Owes {
		return 1
	}
	return 0
}

// settled does the work that follows a settled turn.
func (f *flight[S]) settled(cp *checkpoint.Checkpoint, o checkpoint.AppendOptions, more bool) {
	f.last = cp
	if o.Release {
		f.own.Released()
	}
	if !o.Owes {
		f.owed = f.next()
	}
	if f.recorded {
		f.forget(*f.run)
	}
	_ = f.deliver(!more) // what fails stays owed
	if f.final {
		f.compact()
	}
	f.emit(Event{Kind: TurnSettled, Usage: f.meter.total()})
}

// asKept ends a turn that is settled already: by an Append of ours whose reply was lost, or by another owner, with
// perhaps another result. The stored turn is returned, not ours. If no other owner has claimed the session since, the
// work that follows is ours.
func (f *flight[S]) asKept(
	mine checkpoint.Checkpoint, o checkpoint.AppendOptions, doubt bool, conflict error,
) (*Result[S], error) {
	kept, err := f.find(mine)
	if err != nil {
		return nil, f.notAppended(true, fmt.Errorf("%w: %w", conflict, err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), f.Limits.SettleTimeout)
	defer cancel()
	res, err := f.o.result(ctx, f.own.Session, kept, f.call.force)
	if err != nil {
		return nil, f.notAppended(true, err)
	}
	f.index = kept.Turn
	_, err = f.own.Persist(f.ctx, func(ctx context.Context) error {
		return f.store.Mark(ctx, f.own.Lease, checkpoint.Marks{})
	})
	if doubt || err == nil {
		f.meters.owes(owing(o)) // if another owner settled it, that owner has counted it too
	}
	if err == nil {
		f.settled(&kept, o, f.more())
		return res, nil
	}
	f.last, f.mute = &kept, true
	if errors.Is(err, lock.ErrFenced) {
		f.own.Lose(lock.ErrFenced)
	} else {
		f.Logger.WarnContext(f.ctx, "settled; what follows is left to the next call",
			"session", f.own.Session, "turn", f.index, f.why(err))
	}
	f.emit(Event{Kind: TurnSettled, Usage: f.meter.total()})
	return res, nil
}

// find returns the turn that has settled the run of mine. Earlier turns existed when mine was numbered, so the search
// stops there.
func (f *flight[S]) find(mine checkpoint.Checkpoint) (cp checkpoint.Checkpoint, err error) {
	_, err = f.own.Persist(f.ctx, func(ctx context.Context) error {
		for kept, err := range f.store.Turns(ctx, f.own.Key, checkpoint.Newest) {
			switch {
			case err != nil:
				return err
			case kept.RunID == mine.RunID:
				cp = kept
				return nil
			case kept.Turn <= mine.Turn:
				return checkpoint.ErrNotFound
			}
		}
		return checkpoint.ErrNotFound
	})
	return cp, err
}

// checkpoint returns the turn as it settles.
func (f *flight[S]) checkpoint() (checkpoint.Checkpoint, error) {
	state, err := encodeState(f.engine, &f.state)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	for i, reason := range f.reasons {
		f.memo.Steps[i].Reason = reason
	}
	payload := record{payloadVersion, f.memo.Input, storedUsage(f.meter.total()), f.memo.Steps}.encode()
	cp := checkpoint.Checkpoint{
		Turn: f.index, State: state, Payload: payload, Signature: f.signature, Version: f.version,
		RunID: f.id, RequestID: f.input.RequestID,
	}
	if n := len(f.memo.Steps); n > 0 {
		cp.Route = f.memo.Steps[n-1].Intents
	}
	return cp, nil
}

// notAppended returns the error of an Append that gave up. doubt says that the Append may have taken effect.
func (f *flight[S]) notAppended(doubt bool, err error) error {
	e := f.err("settle", err)
	switch {
	case errors.Is(err, lock.ErrFenced):
		f.own.Lose(lock.ErrFenced)
	case invalid(err) && !doubt:
		return f.fail(e) // no store accepts this state
	}
	if doubt {
		e.Err = indeterminate(e.Err)
	}
	return f.left(e)
}

// unsettled ends a turn that cannot go on. If the failure is the bot's, and no other process can settle the turn, the
// turn fails. Otherwise its run is left in flight.
func (f *flight[S]) unsettled(err error) error {
	e := f.mine(err)
	switch {
	case errors.Is(err, errStuck):
		return f.leave(e)
	case f.own.Lost() != nil:
		e.Err = f.own.Lost()
		return f.left(e)
	case f.ctx.Err() != nil:
		e.Err = ctxcause.Of(f.ctx)
		return f.leave(e)
	case errors.Is(err, errNotSaved):
		return f.left(e)
	}
	return f.fail(e)
}

// fail ends the turn for good. The snapshot store has to know this before a caller does. If no caller waits, the run is
// tried again later.
func (f *flight[S]) fail(e *Error) error {
	if !f.recorded {
		return f.failed(e)
	}
	if f.call.alone {
		return f.retryLater(e)
	}
	err := f.note(nil, func(r *snapshot.Run) { r.Status, r.Error = snapshot.Ended, errorText(e.Err) })
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", err, e.Err)
		return f.left(e)
	}
	f.forget(*f.run)
	return f.failed(e)
}

func (f *flight[S]) failed(e *Error) error {
	f.own.Begun = f.input.RequestID != "" // the same request id again is the same run, and needs the same life
	f.emit(Event{Kind: TurnFailed, Usage: e.Usage, Err: e})
	return e
}

// The pause before a run that failed is tried again doubles with its attempts.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
)

// retryLater leaves a run that failed while no caller waits. The run is due again after a pause, and is parked in the
// end.
func (f *flight[S]) retryLater(e *Error) error {
	pause := backoff(f.run.Attempt)
	err := f.noteBranches(func(r *snapshot.Run) {
		r.Status, r.Error, r.Pause = snapshot.Waiting, errorText(e.Err), pause
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", err, e.Err)
	}
	f.emit(Event{Kind: TurnLeft, Usage: e.Usage, Err: e})
	return e
}

// noteBranches saves a change of the run, and the branches that have finished since the last save. If no store accepts
// the branches, they run again.
func (f *flight[S]) noteBranches(change func(*snapshot.Run)) error {
	parts, err := f.unsavedParts()
	if err != nil {
		return errors.Join(err, f.note(nil, change))
	}
	err = f.note(parts, change)
	if invalid(err) {
		err = f.note(nil, change)
	}
	return err
}

// leave leaves the run in flight for the next caller or drain, which may begin at once. If a function of the bot has
// run since progress was saved, the attempt counts. Otherwise callers with short deadlines would repeat one step for
// ever.
func (f *flight[S]) leave(e *Error) error {
	if errors.Is(e.Err, errStuck) {
		f.giveUp()
		return f.left(e)
	}
	if !f.recorded {
		return f.failed(e)
	}
	err := f.noteBranches(func(r *snapshot.Run) {
		r.Status, r.Attempt = snapshot.Waiting, f.run.Attempt
		if !f.worked {
			r.Attempt = max(0, r.Attempt-1)
		}
	})
	if err != nil {
		e.Err = fmt.Errorf("%w: %w", e.Err, err)
	}
	return f.left(e)
}

// giveUp is for a function of the bot that goes on although its context has ended. The engine no longer hears the
// function, and the lease is left to expire.
func (f *flight[S]) giveUp() {
	f.meter.kill()
	f.own.Lose(errStuck)
}

// left ends a turn that may still settle: its run is in flight, or the reply to an Append was lost.
func (f *flight[S]) left(e *Error) error {
	if f.recorded {
		e.Err = indeterminate(e.Err)
	}
	if !errors.Is(e.Err, ErrIndeterminate) {
		return f.failed(e)
	}
	f.emit(Event{Kind: TurnLeft, Usage: e.Usage, Err: e})
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
