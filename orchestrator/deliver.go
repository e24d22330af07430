package orchestrator

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/lock"
)

// parkedDelivery is the pause after a delivery has failed Limits.Attempts times.
const parkedDelivery = 365 * 24 * time.Hour

// deliver hands over the owed turns, the oldest first, and stops at the first delivery that fails. That turn stays
// owed. The next call tries it again, or a drain after a pause. With final, the last mark releases the session.
func (v *visit[S]) deliver(final bool) error {
	if v.o.def.Deliver == nil || v.last == nil || v.mute {
		return nil
	}
	for v.owed <= v.last.Turn {
		if err := v.own.Lost(); err != nil {
			return err
		}
		if v.owed < v.last.Turn && v.own.Ctx.Err() != nil {
			return ctxcause.Of(v.own.Ctx) // the backlog can wait
		}
		if err := v.handOver(v.owed); err != nil {
			v.mute = true
			v.holdBack(err)
			return err
		}
		if err := v.noteDelivery(final); err != nil {
			v.mute = true
			v.Logger.WarnContext(v.own.Ctx, "delivery not noted; it is repeated",
				"session", v.own.Session, "turn", v.owed-1, v.why(err))
			return err
		}
	}
	return nil
}

// noteDelivery notes that the oldest owed turn is delivered.
func (v *visit[S]) noteDelivery(final bool) error {
	v.owed++
	m := checkpoint.Marks{Delivered: v.owed, Release: final && v.owed > v.last.Turn}
	if err := v.mark(m); err != nil {
		return err
	}
	v.failedDeliveries = 0
	v.meters.owes(-1)
	if m.Release {
		v.own.Released()
	}
	return nil
}

// mark raises counters of the session.
func (v *visit[S]) mark(m checkpoint.Marks) error {
	_, err := v.own.Persist(v.own.Ctx, func(ctx context.Context) error { return v.store.Mark(ctx, v.own.Lease, m) })
	if errors.Is(err, lock.ErrFenced) {
		v.own.Lose(lock.ErrFenced)
	}
	return err
}

// holdBack counts a delivery that has failed. Drains wait before they try again, longer each time. After
// Limits.Attempts they give up. Calls of users still try.
func (v *visit[S]) holdBack(cause error) {
	v.failedDeliveries++
	pause := backoff(v.failedDeliveries)
	if v.failedDeliveries >= v.Limits.Attempts {
		pause = parkedDelivery
		v.Logger.ErrorContext(v.own.Ctx, "delivery parked: drains try it no more; see Orchestrator.SkipDelivery",
			"session", v.own.Session, "turn", v.owed, "failures", v.failedDeliveries, v.why(cause))
	} else {
		v.Logger.WarnContext(v.own.Ctx, "not delivered; it stays owed",
			"session", v.own.Session, "turn", v.owed, v.why(cause))
	}
	v.putOff(pause)
}

// putOff makes the oldest owed delivery due after a pause, by the store's clock.
func (v *visit[S]) putOff(pause time.Duration) {
	if v.own.Lost() != nil {
		return
	}
	if err := v.mark(checkpoint.Marks{Retry: pause}); err != nil {
		v.Logger.WarnContext(v.own.Ctx, "failed delivery not counted",
			"session", v.own.Session, "turn", v.owed, v.why(err))
	}
}

// backoff is the pause after so many failures: it doubles each time, up to ten minutes.
func backoff(failures int) time.Duration {
	return min(firstRetry<<min(failures, 10), lastRetry)
}

// handOver delivers one turn, under a deadline of its own.
func (v *visit[S]) handOver(turn int) error {
	ctx, cancel := v.own.Outliving(v.Limits.SettleTimeout, false)
	defer cancel()
	cp, err := v.settledTurn(ctx, turn)
	if err != nil {
		return err
	}
	res, err := v.o.result(ctx, v.own.Session, cp, v.call.force)
	if err != nil {
		return err
	}
	if err := v.own.Lost(); err != nil {
		return err
	}
	v.own.AtWork(cp.RunID)
	if err := v.engine.run(ctx, func(ctx context.Context) error { return v.o.def.Deliver(ctx, res) }); err != nil {
		return err
	}
	v.call.emit(Event{Kind: Delivered, RunID: cp.RunID, Turn: cp.Turn})
	return nil
}

// settledTurn returns a kept turn.
func (v *visit[S]) settledTurn(ctx context.Context, turn int) (checkpoint.Checkpoint, error) {
	if v.last.Turn == turn {
		return *v.last, nil
	}
	return checkpoint.Load(ctx, v.store, v.own.Key, turn)
}

// SkipDelivery gives up the delivery of the oldest turn that session owes, if that turn has runID. The turns behind it
// are due again. skipped says whether the turn was owed. Call SkipDelivery for a reply that can never be delivered:
// such a turn is not pruned, and holds back the turns behind it.
func (o *Orchestrator[S]) SkipDelivery(ctx context.Context, session, runID string) (skipped bool, err error) {
	if err := checkSession(session); err != nil {
		return false, o.adminError("skip delivery", session, err)
	}
	k := o.newCall(session, nil)
	defer k.close(ctx)
	v, err := o.visit(ctx, k, "", true)
	if err != nil {
		return false, o.adminError("skip delivery", session, err)
	}
	defer v.own.Done()
	if v.last == nil || v.owed > v.last.Turn {
		return false, nil
	}
	cp, err := v.settledTurn(v.own.Ctx, v.owed)
	if err != nil {
		return false, o.adminError("skip delivery", session, err)
	}
	if cp.RunID != runID {
		return false, nil
	}
	if err := v.noteDelivery(false); err != nil {
		return false, o.adminError("skip delivery", session, err)
	}
	return true, nil
}
