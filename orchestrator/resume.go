package orchestrator

import "github.com/holdfast-go/holdfast/snapshot"

// resumed returns the execution of a run that was found in flight and is ours now.
func (o *Orchestrator[S]) resumed(v *visit, r snapshot.Run) *execution[S] {
	parts := r.Parts
	r.Parts = nil
	r.Fence = v.own.Grant.Fence
	r.Status, r.Error, r.Pause = snapshot.Running, "", 0
	x := &execution[S]{bot: o, visit: v, ctx: v.own.Ctx, timed: v.own.Ctx}
	x.run = run{slot: &v.slot, row: r, parts: parts, inStore: true}
	return x
}

// ready prepares a run that was adopted. The run goes on where it was saved. If another turn has settled since, the run
// starts over from its input.
func (x *execution[S]) ready() error {
	x.index = x.visit.next()
	x.visit.own.AtWork(x.run.row.ID)
	if err := x.load(); err != nil {
		if x.visit.call.alone && x.run.stored != nil {
			return x.retryLater(x.err("drift", err))
		}
		return x.left(x.err("drift", err))
	}
	x.trace(true)
	x.startTimer()
	x.emit(Event{Kind: TurnResumed})
	if x.run.row.Base != x.visit.base() {
		return x.startOver()
	}
	x.number()
	if err := x.recall(); err != nil {
		return x.leave(x.err("begin", err))
	}
	return nil
}

// startOver builds the turn again, from its input and the newest state.
func (x *execution[S]) startOver() error {
	payload := &x.run.payload
	payload.Iteration, payload.Next, payload.Feedback, payload.Steps = 0, nil, "", nil
	x.ran, x.fan = nil, nil
	if err := x.gather(); err != nil {
		return x.leave(x.mine(err))
	}
	if err := x.enter(); err != nil {
		return x.unsettled(err)
	}
	if err := x.put(func(*snapshot.Run) {}); err != nil {
		return x.unsettled(x.err("save", err))
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
	x.meter.used = Usage(used)
	for _, s := range payload.Steps {
		x.ran = append(x.ran, s.next().ran()...)
	}
	switch {
	case payload.State != nil:
		x.state, err = x.bot.restore(x.ctx, asCheckpoint(x.run.row, *payload), x.visit.call.force)
	case x.run.row.Base == x.visit.base():
		err = x.loadNewest()
	}
	switch {
	case err != nil:
		return err
	case d.wrote(payload.Signature, payload.Version):
		return x.loadFan()
	}
	return x.redefine()
}

// redefine makes a run of another definition a run of this one. A fan-out of the old definition begins again.
func (x *execution[S]) redefine() error {
	d, payload := &x.engine().identity, &x.run.payload
	payload.Signature, payload.Version = d.signature, d.version
	if payload.Next != nil && !d.knows(payload.Next.Intents) {
		payload.Next = nil
	}
	if payload.State != nil {
		return x.keep()
	}
	return nil
}

// loadFan restores the fan-out that the run was saved in.
func (x *execution[S]) loadFan() error {
	fan, err := x.run.loadFan(&x.engine().identity)
	if err != nil || fan == nil {
		return err
	}
	if state := fan.decided.State; state != nil {
		if x.state, err = decode[S](state); err != nil {
			return err
		}
	}
	x.fan = fan
	x.run.payload.Next = &fan.decided.Next
	return nil
}
