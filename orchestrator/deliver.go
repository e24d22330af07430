package orchestrator

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/runnote"
)

// parkedDelivery is the pause after a delivery has failed Limits.Attempts times.
const parkedDelivery = 365 * 24 * time.Hour

// deliver hands over the owed turns, the oldest first, and stops at the first delivery that fails. That turn stays
// owed. The next call tries it again, or a drain after a pause. With final, the last mark releases the session.
func (o *Orchestrator[S]) deliver(v *visit, final bool) error {
	if o.def.Deliver == nil || v.newest == nil || v.mute {
		return nil
	}
	if err := v.sweepSettled(); err != nil {
		v.mute, v.undelivered = true, err
		return err
	}
	for v.owed <= v.newest.Turn {
		if err := v.own.Lost(); err != nil {
			return err
		}
		if v.owed < v.newest.Turn && v.own.Ctx.Err() != nil {
			return ctxcause.Of(v.own.Ctx) // the backlog can wait
		}
		if err := o.handOver(v, v.owed); err != nil {
			v.mute, v.undelivered = true, err
			if !isDrift(err) { // another process can read the turn, and deliver it
				v.holdBack(err)
			}
			return err
		}
		if err := v.noteDelivery(final); err != nil {
			v.mute = true
			v.engine.log.WarnContext(v.own.Ctx, "delivery not noted; it is repeated",
				"session", v.own.Grant.Session, "turn", v.owed-1, "run", v.delivering, v.engine.why(err))
			return err
		}
	}
	return nil
}

// sweepSettled deletes the run of a settled turn whose owner may have died before the turn log had its end. A reply is
// handed over after that.
func (v *visit) sweepSettled() error {
	if !v.phases.on() || v.swept || !v.owing() {
		return nil
	}
	found, err := v.slot.find(v.own.Ctx)
	switch {
	case err != nil && !ofOneRow(err):
		return err
	case err != nil || v.engine.options.Snapshots == nil: // no run says which end is missing
		err = v.repeatSettled()
	case found != nil:
		var finished bool
		var by *checkpoint.Checkpoint
		if finished, by, err = v.finished(*found); finished && by != nil {
			err = v.sweepUp(*found, by)
		}
	}
	v.swept = err == nil
	return err
}

// repeatSettled records the ends of the owed turns. The turn log may have them.
func (v *visit) repeatSettled() error {
	for turn := v.owed; turn <= v.newest.Turn; turn++ {
		cp, err := v.settledTurn(v.own.Ctx, turn)
		if err == nil {
			err = v.phases.settled(v.own.Ctx, cp, 0, v.call.force)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteDelivery notes that the oldest owed turn is delivered.
func (v *visit) noteDelivery(final bool) error {
	v.owed++
	m := checkpoint.Marks{Delivered: v.owed, Release: final && v.owed > v.newest.Turn}
	if err := v.mark(m); err != nil {
		return err
	}
	v.failures = 0
	if m.Release {
		v.own.Released()
	}
	return nil
}

// holdBack counts a delivery that has failed. Drains wait before they try again, longer each time. After
// Limits.Attempts they give up. Calls of users still try.
func (v *visit) holdBack(cause error) {
	v.failures++
	pause := backoff(v.failures)
	if v.failures >= v.engine.options.Limits.Attempts {
		pause = parkedDelivery
		v.engine.log.ErrorContext(v.own.Ctx, "delivery parked: drains try it no more; see Orchestrator.SkipDelivery",
			"session", v.own.Grant.Session, "turn", v.owed, "run", v.delivering, "failures", v.failures,
			v.engine.why(cause))
	} else {
		v.engine.log.WarnContext(v.own.Ctx, "not delivered; it stays owed",
			"session", v.own.Grant.Session, "turn", v.owed, "run", v.delivering, v.engine.why(cause))
	}
	v.putOff(pause)
}

// putOff makes the oldest owed delivery due after a pause, by the store's clock.
func (v *visit) putOff(pause time.Duration) {
	if v.own.Lost() != nil {
		return
	}
	if err := v.mark(checkpoint.Marks{Retry: pause}); err != nil {
		v.engine.log.WarnContext(v.own.Ctx, "failed delivery not counted",
			"session", v.own.Grant.Session, "turn", v.owed, "run", v.delivering, v.engine.why(err))
	}
}

// The pause before a run that failed is tried again doubles with its attempts.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 10 * time.Minute
)

// backoff is the pause after so many failures: it doubles each time, up to ten minutes.
func backoff(failures int) time.Duration {
	return min(firstRetry<<min(failures, 10), lastRetry)
}

// handOver delivers one turn, under a deadline of its own.
func (o *Orchestrator[S]) handOver(v *visit, turn int) error {
	ctx, cancel := v.own.Outliving(v.engine.options.Limits.SettleTimeout, false)
	defer cancel()
	v.delivering = ""
	cp, err := v.settledTurn(ctx, turn)
	if err != nil {
		return err
	}
	v.delivering = cp.RunID
	res, err := o.result(ctx, v.own.Grant.Session, cp, v.call.force)
	if err != nil {
		return err
	}
	if err := v.own.Lost(); err != nil {
		return err
	}
	v.own.AtWork(cp.RunID)
	runnote.AtWork(ctx)
	ctx, span := v.engine.meters.silent.traceCall(ctx, "orchestrator.deliver", res.Session, cp.RunID)
	err = v.engine.functions.run(ctx, func(ctx context.Context) error { return o.def.Deliver(ctx, res) })
	endSpan(span, err)
	if err != nil {
		return err
	}
	v.emit(Event{Kind: Delivered, RunID: cp.RunID, Turn: cp.Turn}.of(res.Input))
	return nil
}
