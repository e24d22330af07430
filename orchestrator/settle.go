package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// settle appends the turn. Once settle has begun, it goes on even if the caller's context ends.
func (x *execution[S]) settle() (*Result[S], error) {
	x.to(settling)
	if err := x.visit.own.TurnOver(); err != nil {
		return x.fail(x.cause(x.err("settle", err)))
	}
	if err := x.effects.closeEffects(); err != nil {
		return x.fail(x.cause(x.err("settle", err)))
	}
	if err := x.effects.allAsked(); err != nil {
		return x.fail(x.cause(x.err("settle", err)))
	}
	owes, more := x.bot.def.Deliver != nil, x.more()
	o := checkpoint.AppendOptions{
		Keep: x.engine().options.KeepSnapshots, Owes: owes, Release: !owes && !more, Fresh: true,
	}
	cp, err := x.checkpoint(&o)
	if err != nil {
		return x.fail(x.failure(x.err("settle", err)))
	}
	x.visit.own.Keep() // an appended turn is never taken back, even if its reply is lost
	j := x.prepare(cp)
	doubt, err := x.visit.own.Persist(x.ctx, func(ctx context.Context) error { return x.append(ctx, cp, o, &j) })
	if errors.Is(err, checkpoint.ErrConflict) {
		return x.asKept(cp, o, doubt, err)
	}
	if err != nil {
		return nil, x.notAppended(doubt || !owner.Definite(err), err)
	}
	cp.SavedAt = time.Now().UTC()
	x.run.inStore = x.run.inStore && !j.forgotten
	x.settled(&cp, o, more, j.forgotten)
	return &Result[S]{
		Session: x.visit.own.Grant.Session, RunID: x.run.row.ID, Turn: x.index, Input: x.input, State: x.state,
		Steps: steps(x.run.payload.Steps), Usage: x.run.meter.total(), SavedAt: cp.SavedAt,
		Failed: x.failed != "",
	}, nil
}

// fail ends a turn that cannot go on because of a cause, unless Definition.OnFail settles it. OnFail is asked once, and
// never while an effect is in doubt.
func (x *execution[S]) fail(why cause, e *Error, d *InDoubtError) (*Result[S], error) {
	last := why == endFailed || why == endFailedAlone && x.lastTry()
	if x.bot.def.OnFail == nil || !last || x.stage < recorded || x.put != nil || x.failed != "" {
		return nil, x.end(why, e, d)
	}
	if doubt, err := x.effects.unknown(e); err != nil || doubt != nil {
		return nil, x.end(why, e, d)
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.limits().SettleTimeout)
	defer cancel()
	err := x.hook(ctx, inFail, "", func(ctx context.Context, t *Turn[S]) error { return x.bot.def.OnFail(ctx, t, e) })
	switch {
	case errors.Is(err, errStuck):
		return nil, x.end(endStuck, x.err("fail", err), nil)
	case err != nil:
		x.logger().WarnContext(x.ctx, "OnFail does not settle a turn that failed", "session", e.Session,
			"turn", e.Turn, "run", e.RunID, "type", errorType(err))
		return nil, x.end(why, e, d)
	}
	x.failed = errorType(e)
	x.logger().WarnContext(x.ctx, "turn failed, and OnFail settles it", "session", e.Session, "turn", e.Turn,
		"run", e.RunID, "op", e.Op, "intent", e.Intent, "type", x.failed)
	return x.settle()
}

// A joint is what else the call does that appends a turn, if the stores are one database: it deletes the run in the
// same transaction, after it has recorded the end of the turn. Then no crash leaves behind a run that has settled.
type joint struct {
	end       snapshot.End
	on        bool // else the turn settles without the others
	forgotten bool // the run is deleted
}

// prepare decides what the call does that appends the turn.
func (x *flight) prepare(cp checkpoint.Checkpoint) (j joint) {
	j.on = x.engine().joined != nil && x.run.inStore
	if j.on && x.visit.phases.on() {
		var err error
		cp.SavedAt = time.Now().UTC()
		j.end, err = x.visit.phases.endOfTurn(x.visit.own.Ctx, cp, 0, x.visit.call.force)
		j.on = err == nil
	}
	return j
}

// append appends the turn.
func (x *flight) append(
	ctx context.Context, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, j *joint,
) (err error) {
	e, lease := x.engine(), x.visit.own.Grant.Lease
	if !j.on {
		return e.store.Append(ctx, lease, cp, o)
	}
	j.forgotten, err = e.joined(ctx, lease, cp, o, j.end)
	j.on = err == nil || owner.Answered(err)
	return err
}

// more reports whether this call needs the session after the settle and the delivery.
func (x *flight) more() bool { return !x.final() || x.visit.summaries().mayCompact(x.index) }

// settled does the work that follows a settled turn. logged says that the turn log has its end.
func (x *execution[S]) settled(cp *checkpoint.Checkpoint, o checkpoint.AppendOptions, more, logged bool) {
	x.visit.newest = cp
	if o.Release {
		x.visit.own.Released()
	}
	if !o.Owes {
		x.visit.owed = x.visit.upcoming()
	}
	logged = logged || x.visit.logSettled(*cp)
	if x.run.inStore && logged {
		x.run.slot.forget(x.run.row)
	}
	x.visit.swept = logged
	x.visit.mute = x.visit.mute || !logged     // the reply is handed over after that
	_ = stay[S]{x.visit, x.bot}.deliver(!more) // what fails stays owed
	if x.final() {
		x.visit.summaries().follow()
	}
	x.emit(Event{Kind: TurnSettled, Usage: x.run.meter.total(), Failed: x.failed != "", failure: x.failed})
}

// asKept ends a turn that is settled already: by an Append of ours whose reply was lost, or by another owner, with
// perhaps another result. The stored turn is returned, not ours. If no other owner has claimed the session since, the
// work that follows is ours.
func (x *execution[S]) asKept(
	mine checkpoint.Checkpoint, o checkpoint.AppendOptions, doubt bool, conflict error,
) (*Result[S], error) {
	kept, err := x.find(mine)
	if err != nil {
		return nil, x.notAppended(true, fmt.Errorf("%w: %w", conflict, err))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), x.limits().SettleTimeout)
	defer cancel()
	res, err := x.bot.result(ctx, x.visit.own.Grant.Session, kept, x.visit.call.force)
	if err != nil {
		return nil, x.notAppended(true, err)
	}
	x.index = kept.Turn
	_, err = x.visit.own.Persist(x.ctx, func(ctx context.Context) error {
		return x.engine().store.Mark(ctx, x.visit.own.Grant.Lease, checkpoint.Marks{})
	})
	if err == nil {
		x.settled(&kept, o, x.more(), false)
		return res, nil
	}
	x.visit.newest, x.visit.mute = &kept, true
	if errors.Is(err, lock.ErrFenced) {
		x.visit.own.Lose(lock.ErrFenced)
	} else {
		x.engine().log.WarnContext(x.ctx, "settled; what follows is left to the next call",
			"session", x.visit.own.Grant.Session, "turn", x.index, "run", x.run.row.ID, x.engine().why(err))
	}
	x.emit(Event{Kind: TurnSettled, Usage: x.run.meter.total(), Failed: res.Failed})
	return res, nil
}

// find returns the turn that has settled the run of mine.
func (x *flight) find(mine checkpoint.Checkpoint) (cp checkpoint.Checkpoint, err error) {
	_, err = x.visit.own.Persist(x.ctx, func(ctx context.Context) error {
		k := x.visit.own.Grant.Key
		kept, err := x.engine().settledBy(ctx, snapshot.Run{Key: k, ID: mine.RunID, Turn: mine.Turn}, checkpoint.Newest)
		if err == nil && kept == nil {
			err = checkpoint.ErrNotFound
		}
		if err == nil {
			cp = *kept
		}
		return err
	})
	return cp, err
}

// checkpoint returns the turn as it settles, and adds its labels to o.
func (x *execution[S]) checkpoint(o *checkpoint.AppendOptions) (checkpoint.Checkpoint, error) {
	state, err := encodeState(&x.state, x.limits().State)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	for i, reason := range x.reasons {
		x.run.payload.Steps[i].Reason = reason
	}
	payload := turnPayload{
		payloadVersion, x.run.payload.Input, x.run.meter.spent().storedUsage, x.run.payload.Steps, x.put != nil,
		x.visit.phases.tick(), x.failed, x.labels(o),
	}.encode()
	cp := checkpoint.Checkpoint{
		Turn: x.index, State: state, Payload: payload,
		Signature: x.engine().identity.signature, Version: x.engine().identity.version,
		RunID: x.run.row.ID, RequestID: x.input.RequestID,
	}
	if n := len(x.run.payload.Steps); n > 0 {
		cp.Route = x.run.payload.Steps[n-1].Intents
	}
	return cp, nil
}
