package orchestrator

import (
	"encoding/json"
	"errors"

	"github.com/holdfast-go/holdfast/snapshot"
)

// resumed returns the execution of a run that was found in flight and is ours now.
func (s stay[S]) resumed(r snapshot.Run) *execution[S] {
	parts := r.Parts
	r.Parts = nil
	r.Fence = s.own.Grant.Fence
	r.Status, r.Error, r.Pause = snapshot.Running, "", 0
	x := &execution[S]{bot: s.bot}
	x.take(s.visit)
	x.adopted, x.run.row, x.run.parts, x.run.inStore = true, r, parts, true
	if r.RequestID == "" {
		x.times.since = r.StartedAt
	}
	return x
}

// ready prepares a run that was adopted. The run goes on where it was saved. If another turn has settled since, the run
// starts over from its input.
func (x *execution[S]) ready() error {
	x.index = x.visit.upcoming()
	x.visit.own.AtWork(x.run.row.ID)
	found := x.run.row.Payload
	if err := x.load(); err != nil {
		return x.unreadable(found, err)
	}
	x.to(begun)
	if x.visit.phases.on() {
		x.run.payload.Started = startedAt(x.run.row, x.run.payload)
		x.visit.phases.goOn(x.run.row, x.run.payload)
	}
	x.trace(true)
	x.times.start(x.ctx, x.limits().TurnTimeout)
	x.traceSession(true)
	x.emit(Event{Kind: TurnResumed})
	if x.run.row.Base != x.visit.base() {
		return x.startOver()
	}
	x.number()
	if x.altered { // what is saved from now on belongs to the new state
		if err := x.save(nil, func(*snapshot.Run) {}); err != nil {
			return x.end(x.cause(x.err("save", err)))
		}
	}
	if err := x.recall(); err != nil {
		return x.leave(x.err("begin", err))
	}
	return nil
}

// unreadable ends the attempt at a run that was adopted and cannot be read. Under drift the run is left to a process
// that can read it, and the attempt does not count.
func (x *execution[S]) unreadable(found json.RawMessage, err error) error {
	e := x.err("drift", err)
	drift, ok := errors.AsType[*DriftError](err)
	switch {
	case x.run.stored == nil:
		return x.end(endUnsaved, e, nil)
	case errors.Is(err, errNotInherited): // the ledger is away, and that is not the run's fault
		return x.leave(e)
	case ok:
		left := x.leave(e)
		x.engine().refusals.add(x.run.row, found, drift)
		return left
	case x.visit.call.alone:
		return x.end(endFailedAlone, e, nil)
	}
	return x.end(endUnsaved, e, nil)
}

// startOver builds the turn again, from its input and the newest state.
func (x *execution[S]) startOver() error {
	payload := &x.run.payload
	decided := payload.firstDecision()
	payload.Iteration, payload.Feedback, payload.Steps, payload.Asked = 0, "", nil, nil
	x.ran, x.run.fan = nil, nil
	if err := x.gather(); err != nil {
		return x.leave(x.mine(err))
	}
	e := x.engine()
	if decided != nil && e.ledger != nil && e.identity.knows(decided.Intents) { // effects may have been issued under it
		payload.Next = decided
	}
	if err := x.enter(); err != nil {
		return x.end(x.cause(err))
	}
	payload.Usage = x.run.meter.spent().storedUsage
	if err := x.save(nil, func(*snapshot.Run) {}); err != nil {
		return x.end(x.cause(x.err("save", err)))
	}
	return nil
}

// load reads what was saved of the run.
func (x *execution[S]) load() error {
	d := &x.engine().identity
	used, err := x.run.load(d)
	if err != nil {
		return err
	}
	payload := &x.run.payload
	x.input = payload.Input.input(x.run.row.RequestID)
	x.run.meter.resume(used)
	for _, s := range payload.Steps {
		x.ran = append(x.ran, s.next().ran()...)
	}
	fan, err := x.run.loadFan(d)
	if err != nil {
		return err
	}
	if err := x.effects.inherit(fan); err != nil {
		return err
	}
	also, final := x.bot.restOf(*payload, fan)
	if strangers := x.effects.strangers(); strangers != nil {
		also.drift, final = also.drift.and(strangers), true
	}
	if final && !x.visit.call.force {
		return also.drift
	}
	from, err := x.bot.stateOf(x.ctx, x.run.row, *payload, x.visit.newest, also, x.visit.call.force)
	if err != nil {
		return err
	}
	x.state, x.altered = from.state, from.altered
	if from.altered || d.migrates && payload.Version != d.version {
		return x.redefine()
	}
	payload.Signature, payload.Version = d.signature, d.version
	return x.takeFan(fan)
}

// redefine makes a run of another definition a run of this one. A fan-out of the old definition begins again. A
// decision for what is no intent is made anew.
func (x *execution[S]) redefine() error {
	d, payload := &x.engine().identity, &x.run.payload
	x.altered = true
	payload.Signature, payload.Version = d.signature, d.version
	if payload.Next != nil && !d.knows(payload.Next.Intents) {
		payload.Next = nil
	}
	return x.keep(mostState)
}

// takeFan goes on with the fan-out that the run was saved in.
func (x *execution[S]) takeFan(fan *fan) (err error) {
	if fan == nil {
		return nil
	}
	if state := fan.decided.State; state != nil {
		if x.state, err = decode[S](state); err != nil {
			return err
		}
	}
	x.run.fan = fan
	x.run.payload.Next = &fan.decided.Next
	return nil
}
