package orchestrator

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// Abandon ends the run with runID without a turn, in any process. ended says whether such a run was in flight: a late
// "stop" does not end the next run. The owner of the run is fenced off. In this process the context of the run ends at
// once, with ErrAbandoned. In another process it ends at the owner's next call to a store or next renewal. If no such
// run is in flight, nothing is written. Effects of the run outside the stores stay. Once the end is durable, the event
// TurnFailed with ErrAbandoned goes to the handlers of Subscribe.
//
// Without a snapshot store, one run cannot be told from the next. Then Abandon ends the context of the run with runID
// that this process works on, or of any run if runID is "". ended says whether there was such a run. A run that has
// begun to settle is not ended, and its delivery goes on. Compact and SkipDelivery go on too.
//
// A damaged run is deleted. If the id of the damaged run cannot be read, every runID means that run. "" means any run.
func (o *Orchestrator[S]) Abandon(ctx context.Context, session, runID string) (ended bool, err error) {
	if err := checkSession(session); err != nil {
		return false, adminError("abandon", session, err)
	}
	if o.engine.options.Snapshots == nil {
		return o.engine.sessions.InterruptTurn(session, runID, ErrAbandoned), nil
	}
	found, err := o.engine.wanted(ctx, session, runID)
	if err != nil || found == nil {
		return false, adminError("abandon", session, err)
	}
	if found.RequestID != "" {
		if err := o.engine.waiters().forgetWaiting(ctx, session, found.RequestID); err != nil {
			return false, adminError("abandon", session, err)
		}
	}
	ended, err = o.engine.end(ctx, *found)
	return ended, adminError("abandon", session, err)
}

// Unpark makes the parked run of session due again: the drain, or the next call for the session, goes on where the run
// was saved, and counts its attempts anew. Unpark calls no function of the bot, and does not decode what the run has
// saved: a process of any version may call it. unparked says whether a run was parked. Another run is left alone, and
// so is its owner.
//
// Unpark waits for the session, as Compact does. If the run is damaged, the error is snapshot.ErrDamaged. After an
// error the run may be parked still: repeat the call.
func (o *Orchestrator[S]) Unpark(ctx context.Context, session string) (unparked bool, err error) {
	if err := checkSession(session); err != nil {
		return false, adminError("unpark", session, err)
	}
	unparked, err = o.engine.makeDue(ctx, session, snapshot.Parked)
	return unparked, adminError("unpark", session, err)
}

// MakeDue makes a run of session that waits to be tried again due now: what kept it from going on is mended, and its
// pause may be minutes. Its attempts stay counted. made says whether such a run was waiting. In all else it is as
// Unpark.
func (o *Orchestrator[S]) MakeDue(ctx context.Context, session string) (made bool, err error) {
	if err := checkSession(session); err != nil {
		return false, adminError("make due", session, err)
	}
	made, err = o.engine.makeDue(ctx, session, snapshot.Waiting)
	return made, adminError("make due", session, err)
}

// mostUnparks is how often Unpark looks at a session that Abandon or Delete takes from it.
const mostUnparks = 3

// makeDue makes the run of session due if it has this status.
func (e *engine) makeDue(ctx context.Context, session string, status snapshot.Status) (made bool, err error) {
	for tries := 1; ; tries++ {
		found, err := e.run(ctx, session, true)
		switch {
		case errors.Is(err, snapshot.ErrNotFound):
			return false, nil
		case err != nil || found.Status != status:
			return false, err
		}
		made, lost, err := e.makeOwnedDue(ctx, session, status)
		if err == nil || !lost || tries == mostUnparks {
			return made, err
		}
	}
}

// makeOwnedDue makes the call the owner of the session, and makes its run due. lost says that another owner has the
// session since.
func (e *engine) makeOwnedDue(
	ctx context.Context, session string, status snapshot.Status,
) (made, lost bool, err error) {
	k := e.listeners.newCall(session, nil)
	defer k.close(ctx)
	v, err := e.visit(ctx, k, "", true)
	if err != nil {
		return false, false, err
	}
	defer v.own.Done()
	made, err = v.makeDue(status)
	return made, errors.Is(err, lock.ErrFenced) || errors.Is(v.own.Lost(), ErrAbandoned), err
}

// makeDue makes the run due if it has this status. Another owner may have gone on with the run since it was found.
func (v *visit) makeDue(status snapshot.Status) (made bool, err error) {
	found, err := v.slot.find(v.own.Ctx)
	if err != nil || found == nil || found.Status != status {
		return false, err
	}
	r, err := v.slot.adopt(*found, 0)
	switch {
	case err == nil && r.Status == status:
	case (err == nil || errors.Is(err, errChanged)) && r.Status == snapshot.Running:
		// A former owner has written late, and is fenced off. So r waits for its next owner.
		return false, v.slot.change(r, snapshot.Waiting, r.Error, nil)
	case errors.Is(err, errChanged):
		return false, nil
	default:
		return false, err
	}
	message := "run made due"
	if r.Pause = 0; status == snapshot.Parked {
		message, r.Attempt = "run unparked", 0
	}
	if err := v.slot.change(r, snapshot.Waiting, r.Error, nil); err != nil {
		return false, err
	}
	v.engine.log.InfoContext(v.own.Ctx, message, "session", r.Session, "run", r.ID)
	return true, nil
}

// Delete removes the session and its run, and fences off its owner. Deleting rows would not fence off the owner.
//
// If the store does not answer, the error is ErrIndeterminate. Delete also removes a damaged session, which refuses
// every other call with checkpoint.ErrDamaged or snapshot.ErrDamaged. If the head of a session is missing, Delete
// removes its kept turns.
//
// Delete forgets what Options.Stream keeps of the session. Events that a process still at work on it appends from then
// on are not kept. If the stream store fails, Delete logs a warning, and the store forgets them after a while.
func (o *Orchestrator[S]) Delete(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return adminError("delete", session, err)
	}
	k := o.engine.listeners.newCall(session, nil)
	defer k.close(ctx)
	v := o.engine.newVisit(k)
	v.ends, v.own.Buries = true, true
	taken, err := v.steal(ctx, "")
	if err != nil || !taken {
		return adminError("delete", session, err)
	}
	defer v.own.Done()
	if err := o.engine.waiters().forgetWaiting(ctx, session, ""); err != nil {
		return adminError("delete", session, err)
	}
	if err := v.delete(); err != nil {
		return adminError("delete", session, err)
	}
	if shows := o.engine.listeners.shows; shows != nil {
		if err := shows.forget(ctx, session, v.own.Grant.Fence.Epoch); err != nil {
			// The store forgets them by itself, after a while.
			o.engine.log.WarnContext(ctx, "events of a deleted session are still kept", "session", session,
				o.engine.why(err))
		}
	}
	return nil
}

func adminError(op, session string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && error(e) == err { //nolint:errorlint // what it wraps is the user's
		err = e.Err
	}
	return &Error{Op: op, Session: session, Err: unavailable(err)}
}

// Compact summarizes the unsummarized turns now. It leaves alone the newest turns, as Compaction.Keep says.
func (o *Orchestrator[S]) Compact(ctx context.Context, session string) error {
	if err := checkSession(session); err != nil {
		return adminError("compact", session, err)
	}
	if o.engine.options.Compaction.Run == nil {
		return adminError("compact", session, errors.New("Compaction.Run is missing"))
	}
	k := o.engine.listeners.newCall(session, nil)
	defer k.close(ctx)
	v, err := o.engine.visit(ctx, k, "", true)
	if err != nil {
		return adminError("compact", session, err)
	}
	defer v.own.Done()
	r, some := v.summaries().ranged(v.upcoming() - 1 - v.engine.options.Compaction.Keep)
	if !some {
		return nil
	}
	ctx, cancel := context.WithTimeout(v.own.Ctx, v.engine.options.Compaction.Timeout)
	defer cancel()
	return adminError("compact", session, v.summaries().summarize(ctx, r))
}

// SkipDelivery gives up the delivery of the oldest turn that session owes, if that turn has runID. The turns behind it
// are due again. skipped says whether the turn was owed. Call SkipDelivery for a reply that can never be delivered:
// such a turn is not pruned, and holds back the turns behind it.
func (o *Orchestrator[S]) SkipDelivery(ctx context.Context, session, runID string) (skipped bool, err error) {
	if err := checkSession(session); err != nil {
		return false, adminError("skip delivery", session, err)
	}
	k := o.engine.listeners.newCall(session, nil)
	defer k.close(ctx)
	v, err := o.engine.visit(ctx, k, "", true)
	if err != nil {
		return false, adminError("skip delivery", session, err)
	}
	defer v.own.Done()
	if v.newest == nil || v.owed > v.newest.Turn {
		return false, nil
	}
	cp, err := v.settledTurn(v.own.Ctx, v.owed)
	if err != nil {
		return false, adminError("skip delivery", session, err)
	}
	if cp.RunID != runID {
		return false, nil
	}
	if err := v.noteDelivery(false); err != nil {
		return false, adminError("skip delivery", session, err)
	}
	return true, nil
}

// Sweep retires what the stores no longer need: sessions that have been idle for the TTL of the checkpoint store, and
// what the snapshot store remembers of runs that ended long ago, the old events of Options.Stream, and the effects and
// turns that have the age at which Options.Ledger and Options.TurnLog forget them. Then it calls Expire, also if a
// store has failed. It is for bootdrain.Options.Sweep. limit bounds how many of each one call retires; 0 means no
// limit. On Redis they expire by themselves, and Sweep removes the stale entries that listed the sessions.
func (o *Orchestrator[S]) Sweep(ctx context.Context, limit int) (retired int, err error) {
	retired, err = o.engine.sweepStores(ctx, limit)
	n, failed := o.Expire(ctx, limit)
	if failed != nil {
		err = errors.Join(err, failed)
	}
	return max(retired, n), err
}

// Expire does what has come due in the sessions: see Definition.Expire. It is for a program that sweeps the databases,
// and not the stores of each bot.
func (o *Orchestrator[S]) Expire(ctx context.Context, limit int) (done int, err error) {
	if o.def.Expire == nil {
		return 0, nil
	}
	if done, err = o.def.Expire(ctx, limit); err != nil {
		err = &Error{Op: "sweep", Err: err}
	}
	return done, err
}

func (e *engine) sweepStores(ctx context.Context, limit int) (retired int, err error) {
	for _, kept := range []any{
		e.bare.checkpoints, e.bare.snapshots, e.options.Stream, e.options.Ledger, e.options.TurnLog,
	} {
		s, ok := kept.(store.Sweeper)
		if !ok {
			continue
		}
		n, err := s.Sweep(ctx, limit)
		retired = max(retired, n)
		if err != nil {
			return retired, &Error{Op: "sweep", Err: err}
		}
	}
	return retired, nil
}
