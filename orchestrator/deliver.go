package orchestrator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/runnote"
)

// parkedDelivery is the pause after a delivery has failed Limits.Attempts times.
const parkedDelivery = 365 * 24 * time.Hour

// deliver hands over the owed turns, the oldest first, and stops at the first delivery that fails. That turn stays
// owed. The next call tries it again, or a drain after a pause. With final, the last mark releases the session.
func (s stay[S]) deliver(final bool) error {
	if err := s.repeatPut(); err != nil {
		s.mute, s.undelivered = true, err
		return err
	}
	if s.bot.def.Deliver == nil || s.newest == nil || s.mute {
		return nil
	}
	if err := s.sweepSettled(); err != nil {
		s.mute, s.undelivered = true, err
		return err
	}
	for s.owed <= s.newest.Turn {
		if err := s.own.Lost(); err != nil {
			return err
		}
		if s.owed < s.newest.Turn && s.own.Ctx.Err() != nil {
			return ctxcause.Of(s.own.Ctx) // the backlog can wait
		}
		if err := s.handOver(s.owed); err != nil {
			s.mute, s.undelivered = true, err
			if !isDrift(err) { // another process can read the turn, and deliver it
				s.holdBack(err)
			}
			return err
		}
		if err := s.noteDelivery(final); err != nil {
			s.mute = true
			s.engine.log.WarnContext(s.own.Ctx, "delivery not noted; it is repeated",
				"session", s.own.Grant.Session, "turn", s.owed-1, "run", s.delivering, s.engine.why(err))
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
		if finished, by, err = v.slot.finished(*found, v.newest); finished && by != nil {
			err = v.sweepUp(*found, by)
		}
	}
	v.swept = err == nil
	return err
}

// repeatPut records the end of the newest turn if it is one of Put: no run says that its process may have died before
// it did.
func (v *visit) repeatPut() error {
	if !v.phases.on() || v.swept || v.newest == nil || !isPut(*v.newest) {
		return nil
	}
	return v.phases.settled(v.own.Ctx, *v.newest, 0, v.call.force)
}

// isPut reports whether a turn is one of Put.
func isPut(cp checkpoint.Checkpoint) bool {
	var payload turnPayload
	return json.Unmarshal(cp.Payload, &payload) == nil && payload.Put
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
func (s stay[S]) handOver(turn int) error {
	ctx, cancel := s.own.Outliving(s.engine.options.Limits.SettleTimeout, false)
	defer cancel()
	s.delivering = ""
	cp, err := s.settledTurn(ctx, turn)
	if err != nil {
		return err
	}
	s.delivering = cp.RunID
	res, err := s.bot.result(ctx, s.own.Grant.Session, cp, s.call.force)
	if err != nil {
		return err
	}
	if err := s.own.Lost(); err != nil {
		return err
	}
	s.own.AtWork(cp.RunID)
	runnote.AtWork(ctx)
	ctx, span := s.engine.meters.silent.traceCall(ctx, "orchestrator.deliver", res.Session, cp.RunID)
	err = s.engine.functions.run(ctx, func(ctx context.Context) error { return s.bot.def.Deliver(ctx, res) })
	endSpan(span, err)
	if err != nil {
		return err
	}
	s.emit(Event{Kind: Delivered, RunID: cp.RunID, Turn: cp.Turn}.of(res.Input))
	return nil
}
