package orchestrator

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// newExecution returns the execution of a new input. If the input has come before, its run is the same run as before.
func (s stay[S]) newExecution(in Input, p *put) *execution[S] {
	in.Data = slices.Clone(in.Data)
	x := &execution[S]{bot: s.bot}
	x.take(s.visit)
	x.input, x.put = in, p
	x.run.row = snapshot.Run{
		Key: s.own.Grant.Key, RequestID: in.RequestID, Attempt: 1, Status: snapshot.Running,
		Fence: s.own.Grant.Fence,
	}
	x.run.payload = runPayload{V: payloadVersion, Input: storedInput{
		Text: in.Text, Origin: in.Origin, By: in.By, Kind: in.Kind,
	}}
	if len(in.Data) > 0 {
		x.run.payload.Input.Data = json.RawMessage(compact(in.Data))
	}
	if in.RequestID != "" {
		x.run.payload.Anew = s.own.Grant.Fence.Epoch
	} else {
		x.times.since = time.UnixMicro(s.own.Grant.Fence.Epoch) // of the claim
	}
	x.name()
	return x
}

// name gives the run the Born of the session, and its id in that life of the session.
func (x *flight) name() {
	own := &x.visit.own
	if x.run.payload.Born == own.Grant.Born {
		return
	}
	x.run.payload.Born = own.Grant.Born
	if x.input.RequestID != "" {
		x.run.row.ID = runID(own.Grant.Key, own.Grant.Born, x.input, x.put != nil)
	} else if x.run.row.ID == "" {
		x.run.row.ID = own.Grant.Fence.Nonce // unique and no secret; a claim begins one such run at most
	}
	x.visit.mine = x.run.row.ID
}

// accept builds the turn and saves the run as in flight. If a run is in flight already, accept returns that run.
func (x *execution[S]) accept() (found *snapshot.Run, err error) {
	x.index = x.visit.upcoming()
	x.visit.own.TurnInFlight(x.run.row.ID)
	x.trace(false)
	if found, err = x.inTheWay(); found != nil || err != nil {
		return found, err
	}
	if err := x.admit(); err != nil {
		return nil, x.err("begin", err)
	}
	x.times.start(x.ctx, x.limits().TurnTimeout)
	if err := x.build(); err != nil {
		if errors.Is(err, errStuck) {
			x.kill()
		}
		return nil, err
	}
	if err := x.over(x.times.ctx); err != nil {
		return nil, x.err("begin", err)
	}
	if x.engine().options.Snapshots == nil || x.put != nil {
		x.visit.own.Begun = true
		x.run.payload.Started, x.run.payload.Usage = x.visit.phases.claimed(), x.run.meter.spent().storedUsage
	} else if found, err = x.saveNew(); found != nil || err != nil {
		return found, err
	}
	x.to(begun)
	x.traceSession(false)
	x.emit(Event{Kind: TurnStarted})
	return nil, nil
}

// admit refuses an input while a reply is owed, if Options.RequireDelivered is set. A run of the input that has begun
// is not refused: see ownInFlight.
func (x *flight) admit() error {
	if !x.engine().options.RequireDelivered || !x.visit.owing() {
		return nil
	}
	if err := x.over(x.ctx); err != nil {
		return err
	}
	if cause := x.visit.undelivered; cause != nil {
		return fmt.Errorf("%w: %w", ErrOwed, cause)
	}
	return ErrOwed
}

// inTheWay returns the run that has to be handled before the turn is built.
func (x *execution[S]) inTheWay() (*snapshot.Run, error) {
	if x.put == nil {
		return x.begunBefore()
	}
	found, err := x.run.slot.find(x.ctx)
	if err != nil {
		return nil, x.err("begin", err)
	}
	return found, nil
}

// begunBefore returns the run of the call's request id, if an earlier call has begun that run. Definition.Begin has run
// for it, and does not run again on the same state. A bot without Definition.Begin learns of the run from the snapshot
// store's Begin.
func (x *execution[S]) begunBefore() (*snapshot.Run, error) {
	if x.stage >= looked || x.bot.def.Begin == nil || x.input.RequestID == "" {
		return nil, nil
	}
	x.to(looked)
	found, err := x.run.slot.find(x.ctx)
	if err != nil {
		return nil, x.err("begin", err)
	}
	if found == nil {
		return nil, nil
	}
	if err := x.meet(*found); err != nil {
		return nil, x.err("begin", err)
	}
	if found.ID != x.run.row.ID {
		return nil, nil
	}
	return found, nil
}

// meet prepares for comparing the id of a run that was found with the id of this run.
func (x *flight) meet(found snapshot.Run) error {
	err := x.visit.meet(found)
	if err == nil {
		x.name()
	}
	return err
}

// build makes the turn as it starts. If the turn is made already and nothing has settled since, build does nothing.
func (x *execution[S]) build() error {
	if x.stage == built && x.run.row.Base == x.visit.base() {
		return nil
	}
	if err := x.gather(); err != nil {
		return err
	}
	if err := x.enter(); err != nil {
		return err
	}
	x.to(built)
	return nil
}

// gather reads the newest state and the history.
func (x *execution[S]) gather() error {
	if err := x.loadNewest(); err != nil {
		return x.err("drift", err)
	}
	x.number()
	d := &x.engine().identity
	x.run.payload.State, x.run.payload.Next = nil, x.bot.first
	x.run.payload.Born, x.run.payload.Signature, x.run.payload.Version = x.visit.own.Grant.Born, d.signature, d.version
	if x.put != nil {
		return nil
	}
	if err := x.recall(); err != nil {
		return x.err("begin", err)
	}
	return nil
}

// enter runs Definition.Begin, or the function of Put. If neither Begin, Migrate nor Force can have changed the state
// of the newest turn, the state is not saved again.
func (x *execution[S]) enter() error {
	if x.put != nil { // the session has to have the version that the call asks for
		err := x.put.check(x.index)
		if err == nil {
			err = x.hook(x.times.ctx, inBegin, "", x.change)
		}
		if err != nil {
			return x.err("put", err)
		}
		return nil
	}
	hook := x.bot.def.Begin
	if hook != nil {
		if err := x.hook(x.times.ctx, inBegin, "", hook); err != nil {
			e := x.err("begin", err)
			e.refused = x.over(x.ctx) == nil
			return e
		}
	}
	if hook != nil || x.altered { // the limit is for what the turn leaves
		if err := x.keep(mostState); err != nil {
			return x.err("begin", err)
		}
	}
	return nil
}

// saveNew saves the run, unless a run is in flight; then it returns that run.
func (x *flight) saveNew() (found *snapshot.Run, err error) {
	if err := x.run.slot.renewFence(); err != nil {
		return nil, x.visit.err("claim", err)
	}
	x.run.payload.Started = x.visit.phases.claimed()
	found, err = x.run.begin(x.ctx)
	switch {
	case found != nil: // ours has begun nothing, whatever the error
		return found, nil
	case err == nil:
		return nil, nil
	case !owner.Definite(err) || errors.Is(err, lock.ErrFenced):
		err = x.err("begin", indeterminate(err)) // if Begin took effect, a drain finishes the run
		x.emit(Event{Kind: TurnLeft, Err: err})
	default:
		err = x.err("begin", err)
	}
	return nil, err
}
