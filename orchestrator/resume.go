package orchestrator

import "github.com/holdfast-go/holdfast/snapshot"

// resumed returns the execution of a run that was found in flight and is ours now.
func (o *Orchestrator[S]) resumed(v *visit, r snapshot.Run) *execution[S] {
	parts := r.Parts
	r.Parts = nil
	r.Fence = v.own.Fence
	r.Status, r.Error, r.Pause = snapshot.Running, "", 0
	x := &execution[S]{bot: o, visit: v, ctx: v.own.Ctx, limit: v.own.Ctx}
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
	x.setLimit()
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
	saved := &x.run.saved
	saved.Iteration, saved.Next, saved.Feedback, saved.Steps = 0, nil, "", nil
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
	d := &x.engine().definition
	used, err := x.run.load(d)
	if err != nil {
		return err
	}
	saved := &x.run.saved
	x.input = saved.Input.input(x.run.row.RequestID)
	x.meter.used = Usage(used)
	for _, s := range saved.Steps {
		x.ran = append(x.ran, s.Intents...)
	}
	switch {
	case saved.State != nil:
		x.state, err = x.bot.restore(x.ctx, asCheckpoint(x.run.row, *saved), x.visit.call.force)
	case x.run.row.Base == x.visit.base():
		err = x.newest()
	}
	switch {
	case err != nil:
		return err
	case d.wrote(saved.Signature, saved.Version):
		return x.loadFan()
	}
	return x.redefine()
}

// redefine makes a run of another definition a run of this one. A fan-out of the old definition begins again.
func (x *execution[S]) redefine() error {
	d, saved := &x.engine().definition, &x.run.saved
	saved.Signature, saved.Version = d.signature, d.version
	if saved.Next != nil && !d.knows(saved.Next.Intents) {
		saved.Next = nil
	}
	if saved.State != nil {
		return x.keep()
	}
	return nil
}

// loadFan restores the fan-out that the run was saved in.
func (x *execution[S]) loadFan() error {
	fan, err := x.run.loadFan(&x.engine().definition)
	if err != nil || fan == nil {
		return err
	}
	if state := fan.decided.State; state != nil {
		if x.state, err = decode[S](state); err != nil {
			return err
		}
	}
	x.fan = fan
	x.run.saved.Next = &fan.decided.Next
	return nil
}
