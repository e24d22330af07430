package orchestrator

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/runnote"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An outcome says how a run that was in flight ended.
type outcome[S any] struct {
	// own says that the run is the call's own: its outcome is the outcome of the call.
	own bool
	res *Result[S]
	err error
}

// giveWay handles the run in flight, so that the run of x can begin. If x is nil, the call is to finish the run that
// was found.
func (s stay[S]) giveWay(found snapshot.Run, x *execution[S]) (outcome[S], error) {
	finished, by, err := s.slot.finished(found, s.newest)
	if err == nil && !finished {
		err = s.reborn(found)
	}
	if err != nil {
		own := x != nil && x.input.RequestID != "" && found.RequestID == x.input.RequestID
		return outcome[S]{}, s.refusal(found, own, err)
	}
	if finished {
		return outcome[S]{}, s.sweepUp(found, by)
	}
	own := x == nil
	if x != nil {
		x.name()
		own = found.ID == x.run.row.ID
	}
	if own {
		s.mine = found.ID
	}
	if err := s.checkTakeUp(found, x, own); err != nil {
		if own && errors.Is(err, ErrSuspended) {
			waits := Event{Kind: TurnSuspended, RunID: found.ID, Turn: found.Turn, Err: err}
			s.emit(waits.of(inputOf(found)))
		}
		return outcome[S]{}, s.refusal(found, own, err)
	}
	if !own && s.engine.options.OnInterrupted == AbandonFirst && found.Status != snapshot.Suspended {
		return outcome[S]{}, s.abandon(found)
	}
	return s.takeUp(found, own, x)
}

// checkTakeUp returns why the run that was found cannot be taken up or abandoned by this call.
func (s stay[S]) checkTakeUp(found snapshot.Run, x *execution[S], own bool) error {
	on, force := s.engine.options.OnInterrupted, s.call.force
	if !own && x.input.RequestID != "" && found.RequestID == x.input.RequestID {
		return ErrRequestReused
	}
	pastParked := force || x != nil && on == AbandonFirst
	if err := s.bot.checkUsable(s.own.Ctx, found, s.newest, force, pastParked); err != nil {
		return err
	}
	if !own && on == Reject {
		return ErrInterrupted
	}
	return nil
}

// takeUp finishes a run in flight. The run is the call's own, or the run of an earlier input, whose failure ends only
// itself.
func (s stay[S]) takeUp(found snapshot.Run, own bool, x *execution[S]) (outcome[S], error) {
	forced := s.call.force || found.Status == snapshot.Parked // checkTakeUp lets no other parked run pass
	attempts := s.engine.options.Limits.Attempts
	if forced {
		attempts = 0
	}
	r, err := s.slot.adopt(found, attempts)
	if r.Status == snapshot.Parked && found.Status != snapshot.Parked {
		s.logParked(r)
	}
	if errors.Is(err, errChanged) {
		return outcome[S]{}, nil
	}
	if err != nil {
		if own && !errors.Is(err, ErrParked) {
			err = indeterminate(err)
		}
		e := s.err("adopt", err)
		if own {
			e.RunID = found.ID
		}
		return outcome[S]{}, e
	}
	if found.Status == snapshot.Running {
		s.logTakeover(found, r)
	}
	if forced {
		r.Attempt = 1
	}
	// Otherwise no process would look for a run that was suspended or parked if this process dies.
	if found.Status == snapshot.Suspended || found.Status == snapshot.Parked {
		if err := s.slot.change(r, snapshot.Running, "", nil); err != nil {
			e := s.err("adopt", indeterminate(err))
			e.RunID = found.ID
			return outcome[S]{}, e
		}
		r.Seq++
	}
	adopted := s.resumed(r)
	if own && x != nil {
		adopted.ctx, adopted.tracer = x.ctx, x.tracer
	}
	out := outcome[S]{own: own}
	if out.err = adopted.ready(); out.err == nil {
		runnote.AtWork(s.own.Ctx)
		out.res, out.err = adopted.work()
	}
	if own {
		return out, nil
	}
	return out, s.interrupted(out.err)
}

// interrupted returns why the call cannot go on after the run of an earlier input, which ended with end.
func (v *visit) interrupted(end error) error {
	why := error(nil)
	switch {
	case end == nil:
		why = v.own.Lost()
	case errors.Is(end, ErrIndeterminate):
		why = outside(end)
	case errors.Is(end, ErrSuspended): // again, although what it waited for was answered
		v.call.again()
		e, _ := errors.AsType[*Error](end)
		return v.err("begin", e.Err)
	}
	if why == nil {
		return nil
	}
	v.call.again()
	return v.err("adopt", fmt.Errorf("%w: %w", ErrInterrupted, why))
}
