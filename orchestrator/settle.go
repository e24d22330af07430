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
	if err := x.visit.own.TurnOver(); err != nil {
		return nil, x.unsettled(x.err("settle", err))
	}
	if err := x.closeEffects(); err != nil {
		return nil, x.unsettled(x.err("settle", err))
	}
	if err := x.allAsked(); err != nil {
		return nil, x.unsettled(x.err("settle", err))
	}
	cp, err := x.checkpoint()
	if err != nil {
		return nil, x.fail(x.err("settle", err))
	}
	owes, more := x.bot.def.Deliver != nil, x.more()
	o := checkpoint.AppendOptions{
		Keep: x.engine().options.KeepSnapshots, Owes: owes, Release: !owes && !more, Fresh: true,
	}
	x.visit.own.Keep() // an appended turn is never taken back, even if its reply is lost
	x.prepare(cp)
	doubt, err := x.visit.own.Persist(x.ctx, func(ctx context.Context) error { return x.append(ctx, cp, o) })
	if errors.Is(err, checkpoint.ErrConflict) {
		return x.asKept(cp, o, doubt, err)
	}
	if err != nil {
		return nil, x.notAppended(doubt || !owner.Definite(err), err)
	}
	cp.SavedAt = time.Now().UTC()
	x.run.inStore = x.run.inStore && !x.joint.forgotten
	x.settled(&cp, o, more, x.joint.forgotten)
	return &Result[S]{
		Session: x.visit.own.Grant.Session, RunID: x.run.row.ID, Turn: x.index, Input: x.input, State: x.state,
		Steps: steps(x.run.payload.Steps), Usage: x.meter.total(), SavedAt: cp.SavedAt,
	}, nil
}

// prepare decides what the call does that appends the turn.
func (x *execution[S]) prepare(cp checkpoint.Checkpoint) {
	x.joint = joint{on: x.engine().joined != nil && x.run.inStore}
	if x.joint.on && x.visit.phases.on() {
		var err error
		cp.SavedAt = time.Now().UTC()
		x.joint.end, err = x.visit.phases.endOfTurn(x.visit.own.Ctx, cp, 0, x.visit.call.force)
		x.joint.on = err == nil
	}
}

// append appends the turn.
func (x *execution[S]) append(ctx context.Context, cp checkpoint.Checkpoint, o checkpoint.AppendOptions) (err error) {
	e, lease, j := x.engine(), x.visit.own.Grant.Lease, &x.joint
	if !j.on {
		return e.store.Append(ctx, lease, cp, o)
	}
	j.forgotten, err = e.joined(ctx, lease, cp, o, j.end)
	j.on = err == nil || owner.Answered(err)
	return err
}

// more reports whether this call needs the session after the settle and the delivery.
func (x *execution[S]) more() bool { return !x.final || x.visit.mayCompact(x.index) }

// settled does the work that follows a settled turn. logged says that the turn log has its end.
func (x *execution[S]) settled(cp *checkpoint.Checkpoint, o checkpoint.AppendOptions, more, logged bool) {
	x.visit.newest = cp
	if o.Release {
		x.visit.own.Released()
	}
	if !o.Owes {
		x.visit.owed = x.visit.next()
	}
	logged = logged || x.visit.logSettled(*cp)
	if x.run.inStore && logged {
		x.run.slot.forget(x.run.row)
	}
	x.visit.swept = logged
	x.visit.mute = x.visit.mute || !logged // the reply is handed over after that
	_ = x.bot.deliver(x.visit, !more)      // what fails stays owed
	if x.final {
		x.visit.compact()
	}
	x.emit(Event{Kind: TurnSettled, Usage: x.meter.total()})
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
	x.emit(Event{Kind: TurnSettled, Usage: x.meter.total()})
	return res, nil
}

// find returns the turn that has settled the run of mine.
func (x *execution[S]) find(mine checkpoint.Checkpoint) (cp checkpoint.Checkpoint, err error) {
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

// checkpoint returns the turn as it settles.
func (x *execution[S]) checkpoint() (checkpoint.Checkpoint, error) {
	state, err := encodeState(&x.state, x.limits().State)
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	for i, reason := range x.reasons {
		x.run.payload.Steps[i].Reason = reason
	}
	payload := turnPayload{
		payloadVersion, x.run.payload.Input, x.used().storedUsage, x.run.payload.Steps, x.visit.phases.next(),
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
