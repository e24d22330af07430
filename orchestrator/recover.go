package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/runnote"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// Recoverable yields the sessions that have something to finish now: a waiting run that is due, or an owed reply
// that is due. With all, it also yields every running run whose owner's lease has expired or whose owner has
// stopped, every suspended run whose effects have been answered, every parked run for which a person has answered since
// its last attempt, and every finished run that was not deleted. A
// damaged session, or the session of a damaged run, comes with an error; then Recoverable goes on. An error without
// a session ends Recoverable. If a part of a store is away, Recoverable yields the sessions on the others first, and
// then such an error, which names the part. Recoverable and Recover make the orchestrator a bootdrain.Bot.
//
// The cost does not grow with suspended and parked runs, except for the first call with all, and then one in five
// minutes. Such a call looks at all of them. The others find what a person has answered. So a suspended run that goes
// on for another reason, and a suspended or parked run that is damaged, is found within five minutes: an example is a
// result that a former owner of the run brings late.
func (o *Orchestrator[S]) Recoverable(ctx context.Context, all bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		left := new(gap)
		next := left.eachOnce(yield)
		name, began := o.engine.identity.name, time.Now()
		q := snapshot.Query{Key: snapshot.Key{Orchestrator: name}, Status: snapshot.Waiting, Brief: true}
		stops := o.engine.sessions.Watch()
		if all = all || o.engine.stops.Load() != int64(stops); all {
			q.Status, q.Unattended = "", !o.engine.lookout.due(began)
		}
		ask := unowned{held: o.engine.sessions.Held, next: next}
		var suspended []aRun
		parked := make(map[aRun]time.Time)
		for r, err := range o.engine.runs(ctx, q) {
			goOn := true
			switch {
			case err != nil:
				goOn = ask.fail(ctx, r.Session, err)
			case r.Status == snapshot.Suspended && o.engine.ledger != nil:
				suspended = append(suspended, aRun{r.Session, r.ID})
			case r.Status == snapshot.Parked && o.engine.ledger != nil:
				parked[aRun{r.Session, r.ID}] = r.SavedAt
			case !due(r):
			case r.Status == snapshot.Running:
				goOn = ask.add(ctx, r.Session)
			default:
				goOn = next(r.Session, nil)
			}
			if !goOn {
				return
			}
		}
		for session, err := range o.engine.store.Sessions(ctx, checkpoint.SessionQuery{
			Orchestrator: name, Owing: true, Due: true,
		}) {
			var goOn bool
			if err == nil {
				goOn = ask.add(ctx, session)
			} else {
				goOn = ask.fail(ctx, session, err)
			}
			if !goOn {
				return
			}
		}
		if !ask.flush(ctx) {
			return
		}
		if all {
			if left.err == nil {
				o.engine.stops.Store(int64(stops)) // all sessions of the dead are listed
			}
			// Last: a ledger that is away holds nothing else up.
			k := look{
				began: began, whole: !q.Unattended, partial: left.err != nil, suspended: suspended, parked: parked,
			}
			if !o.engine.answers().lookOut(ctx, k, next) {
				return
			}
		}
		if !o.engine.waiters().listWaiting(ctx, &ask) {
			return
		}
		if left.err != nil {
			yield("", &Error{Op: "recoverable", Err: unavailable(left.err)})
		}
	}
}

// listWaiting adds the sessions in which inputs wait. It reports whether to go on.
func (w waiters) listWaiting(ctx context.Context, ask *unowned) bool {
	if w.engine.options.Inbox == nil {
		return true
	}
	last := ""
	for it, err := range w.engine.options.Inbox.Items(ctx, w.engine.key(""), inbox.Input) {
		switch {
		case err != nil && it.Session == "":
			return ask.flush(ctx) && ask.next("", err)
		case it.Session == last:
		case !ask.add(ctx, it.Session):
			return false
		}
		last = it.Session
	}
	return ask.flush(ctx)
}

// eachOnce returns a func that yields each session once. What is on a part that is away goes to the gap.
func (g *gap) eachOnce(yield func(string, error) bool) func(session string, err error) bool {
	seen := make(map[string]bool)
	return func(session string, err error) bool {
		if g.add(err) {
			return true
		}
		if err != nil && !ofOneRow(err) {
			yield("", &Error{Op: "recoverable", Session: session, Err: err})
			return false
		}
		if seen[session] {
			return true
		}
		seen[session] = true
		if err != nil {
			err = &Error{Op: "recoverable", Session: session, Err: err}
		}
		return yield(session, err)
	}
}

// askedAtOnce is how many sessions a watch asks the checkpoint store about in one round trip.
const askedAtOnce = 1000

// unowned passes on the sessions that no live lease owns.
type unowned struct {
	held func(ctx context.Context, sessions []string) (map[string]string, error)
	next func(session string, err error) bool

	// asked are the sessions that the next flush asks about.
	asked []string
}

// add reports whether to go on.
func (u *unowned) add(ctx context.Context, session string) bool {
	u.asked = append(u.asked, session)
	return len(u.asked) < askedAtOnce || u.flush(ctx)
}

// fail passes on the error of a listing. An error without a session may be the last of it. fail reports whether to go
// on.
func (u *unowned) fail(ctx context.Context, session string, err error) bool {
	if session == "" && !u.flush(ctx) {
		return false
	}
	return u.next(session, err)
}

// flush asks about the sessions that were added, and reports whether to go on.
func (u *unowned) flush(ctx context.Context) bool {
	if len(u.asked) == 0 {
		return true
	}
	held, err := u.held(ctx, u.asked) // with an error, held may be incomplete: a drain claims the rest in vain
	for _, session := range u.asked {
		if _, ok := held[session]; !ok && !u.next(session, nil) {
			return false
		}
	}
	u.asked = u.asked[:0]
	if err != nil {
		return u.next("", err)
	}
	return true
}

// Watching makes this process the watcher of its bot for d, unless another process is the watcher. other is how much
// longer the other process is the watcher. If the checkpoint store is no lock.Watcher, the error is
// errors.ErrUnsupported. Watching makes the orchestrator a bootdrain.Sharer.
//
// Processes of another definition, or with other hooks, have a watcher of their own, because not all of them can
// recover the same. Processes with another every also have their own: every is how often they look for everything.
func (o *Orchestrator[S]) Watching(ctx context.Context, every, d time.Duration) (other time.Duration, err error) {
	if d > 0 {
		o.engine.sessions.Watch() // so that it knows who has stopped if it becomes the watcher
	}
	w, ok := o.engine.bare.checkpoints.(lock.Watcher)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if other, err = w.Watch(ctx, o.engine.identity.name, o.kin(every), o.engine.seat, d); err != nil {
		return 0, &Error{Op: "watching", Err: err}
	}
	return other, nil
}

// OtherStopped returns a channel that is closed when another process is found to have stopped. This process looks for
// that while it has calls, and for ten seconds after each call of Recoverable or Watching. OtherStopped makes the
// orchestrator a bootdrain.Noticer.
func (o *Orchestrator[S]) OtherStopped() <-chan struct{} { return o.engine.sessions.Found() }

// kin is the same in processes that can recover the same sessions and look for them as often.
func (o *codec[S]) kin(every time.Duration) string {
	d := &o.engine.identity
	parts := []string{d.signature, d.version, d.members.Shape(), fmt.Sprint(
		itemsVersion, every, o.engine.options.Snapshots != nil, d.migrates, o.def.Deliver != nil,
		o.engine.ledger != nil, o.engine.turnLog != nil)}
	if o.engine.options.Inbox != nil {
		parts = append(parts, "inbox")
	}
	return digest(parts...)
}

// due reports whether a drain has something to do with a run.
func due(r snapshot.Run) bool {
	switch r.Status {
	case snapshot.Waiting:
		return r.Pause <= 0
	case snapshot.Running, snapshot.Ended:
		return true
	}
	return false
}

// Outcomes of Recover.
const (
	outcomeSettled   = "settled"
	outcomeDelivered = "delivered"
	outcomeCleaned   = "cleaned"
	outcomeHeld      = "held"
	outcomeParked    = "parked"
	outcomeSuspended = "suspended"
	outcomeForeign   = "foreign"
	outcomeDrift     = "drift"
	outcomeDamaged   = "damaged"
)

// Recover finishes the session's run in flight and what the session owes, unless another process owns the session. It
// does not wait. If there is a run, the outcome is the outcome of the run:
//
//	settled    the run is settled
//	cleaned    nothing was left to do, or only to delete
//	held       another process owns the session, or the run is not due yet
//	parked     the run is parked
//	suspended  the run waits for an answer
//	drift      this process would lose something of the run: it is left to another process, and no attempt is counted
//
// If there is no run, the outcome is about what the session owes:
//
//	delivered  the owed turns are delivered
//	held       another process owns the session, or the delivery is not due yet
//	cleaned    nothing is owed
//	parked     the delivery has failed Limits.Attempts times
//	drift      this process would lose something of the owed turn: it stays owed, and no attempt is counted
//	foreign    the definition has no Deliver
//
// An error means that recovery failed and that the session will be due again. The outcome "damaged" with an error means
// that nothing can be recovered until the session is repaired or deleted, or the run is abandoned. The outcome "drift"
// comes with an error that wraps a *DriftError.
func (o *Orchestrator[S]) Recover(ctx context.Context, session string) (outcome string, err error) {
	if err := o.defined("recover", session); err != nil {
		return "", err
	}
	run, outcome, err := recovery[S]{o}.recover(ctx, session)
	runnote.Set(ctx, run)
	switch {
	case errors.Is(err, store.ErrDamaged):
		outcome = outcomeDamaged
	case isDrift(err):
		outcome = outcomeDrift
	}
	return outcome, err
}

// A recovery finishes what no caller waits for.
type recovery[S any] struct{ *Orchestrator[S] }

func (o recovery[S]) recover(ctx context.Context, session string) (run, outcome string, err error) {
	k := o.engine.listeners.newCall(session, nil)
	k.alone = true
	defer k.close(ctx)
	if err := checkSession(session); err != nil {
		return "", "", &Error{Op: "recover", Session: session, Err: err}
	}
	all, err := o.engine.waiters().waiting(ctx, session)
	if err != nil {
		return "", "", &Error{Op: "recover", Session: session, Err: unavailable(err)}
	}
	if len(all) > 0 {
		return o.recoverQueue(ctx, k, all)
	}
	return o.recoverRun(ctx, k)
}

// recoverQueue recovers a session in which inputs wait: what is not of them, and then each of them.
func (o recovery[S]) recoverQueue(
	ctx context.Context, k *call, all []inbox.Item,
) (run, outcome string, err error) {
	r, err := o.engine.run(ctx, k.session, false)
	own := slices.ContainsFunc(all, func(it inbox.Item) bool { return it.ID == r.RequestID })
	switch {
	case errors.Is(err, snapshot.ErrNotFound):
	case err != nil || !own:
		run, outcome, err = o.recoverRun(ctx, k)
		if err != nil || outcome != outcomeSettled && outcome != outcomeDelivered && outcome != outcomeCleaned {
			return run, outcome, err
		}
	case r.Status == snapshot.Waiting && !due(r):
		return r.ID, outcomeHeld, nil
	case r.Status == snapshot.Suspended:
		if _, err := o.resumable(ctx, k); errors.Is(err, ErrSuspended) {
			return r.ID, outcomeSuspended, nil
		}
	}
	settled, err := o.engine.waiters().serveQueue(ctx, all, o.recoverWaiting)
	if outcome = outcomeCleaned; settled > 0 {
		outcome = outcomeSettled
	}
	switch {
	case errors.Is(err, lock.ErrHeld):
		return run, outcomeHeld, nil
	case err != nil:
		outcome, err = told(err)
	}
	return run, outcome, err
}

// recoverWaiting runs an input that has waited, if no other process owns the session.
func (o recovery[S]) recoverWaiting(ctx context.Context, session string, in Input) (err error) {
	k := o.engine.listeners.newCall(session, nil)
	k.alone, k.queued, k.input = true, true, in
	defer k.close(ctx)
	defer func() {
		if final(err) {
			k.refused(err)
		}
	}()
	if err := in.check(session, o.engine.options.Limits.Input); err != nil {
		return &Error{Op: "input", Session: session, Err: err}
	}
	v, err := o.engine.visit(ctx, k, in.RequestID, false)
	if err != nil {
		return err
	}
	defer v.own.Done()
	runnote.AtWork(v.own.Ctx)
	s := stay[S]{v, o.Orchestrator}
	_, err = s.answer(s.newExecution(in, nil))
	return err
}

// recoverRun recovers a session in which no input waits.
func (o recovery[S]) recoverRun(ctx context.Context, k *call) (run, outcome string, err error) {
	session := k.session
	if nothing, err := o.idle(ctx, session); nothing != "" || err != nil {
		if err != nil {
			err = &Error{Op: "recover", Session: session, Err: unavailable(err)}
		}
		return "", nothing, err
	}
	v, err := o.engine.visit(ctx, k, "", false)
	if errors.Is(err, lock.ErrHeld) {
		return "", outcomeHeld, nil
	}
	if err != nil {
		return "", "", err
	}
	defer v.own.Done()
	return o.recoverHere(v)
}

// recoverHere recovers the session of v.
func (o recovery[S]) recoverHere(v *visit) (run, outcome string, err error) {
	owing := v.owing()
	parked := owing && v.failures >= o.engine.options.Limits.Attempts && o.def.Deliver != nil
	v.mute = parked
	if parked { // due all the same: more failures were counted than tried, or Limits.Attempts was higher
		v.putOff(parkedDelivery)
	}
	undelivered := stay[S]{v, o.Orchestrator}.deliver(false)
	run, outcome, err = o.finishFound(v)
	switch {
	case outcome != "" || err != nil:
	case parked:
		outcome = outcomeParked
	case undelivered != nil:
		err = v.err("recover", undelivered)
	case owing && o.def.Deliver == nil:
		outcome = outcomeForeign
	case owing:
		outcome = outcomeDelivered
	default:
		outcome = outcomeCleaned
	}
	return run, outcome, err
}

// idle returns the outcome if there is nothing to recover now, else "". Of the processes that boot together, most come
// too late. With idle they need not claim to find out.
func (o recovery[S]) idle(ctx context.Context, session string) (outcome string, err error) {
	// A server may hang, and the drain waits meanwhile.
	ctx, cancel := context.WithTimeout(ctx, o.engine.options.Limits.SettleTimeout)
	defer cancel()
	inFlight, err := o.engine.hasRun(ctx, session)
	if inFlight || err != nil {
		return "", err
	}
	if due, err := o.owes(ctx, session, true); due || err != nil {
		return "", err
	}
	owes, err := o.owes(ctx, session, false)
	switch {
	case err != nil:
		return "", err
	case owes: // its delivery has failed, and is not due yet
		return outcomeHeld, nil
	}
	return outcomeCleaned, nil
}

// owes reports whether session owes a reply. With due, it reports whether session owes a reply that is due.
func (o recovery[S]) owes(ctx context.Context, session string, due bool) (bool, error) {
	q := checkpoint.SessionQuery{Orchestrator: o.engine.identity.name, Session: session, Owing: true, Due: due}
	for _, err := range o.engine.store.Sessions(ctx, q) {
		return err == nil, err
	}
	return false, nil
}

// finishFound finishes the run in flight. outcome is "" if there is none.
func (o recovery[S]) finishFound(v *visit) (run, outcome string, err error) {
	for {
		found, err := v.slot.find(v.own.Ctx)
		switch {
		case err != nil:
			return run, "", v.err("recover", unavailable(err))
		case found == nil:
			return run, outcome, nil
		case !due(*found) && found.Status == snapshot.Waiting:
			return found.ID, outcomeHeld, nil
		}
		run = found.ID
		done, err := stay[S]{v, o.Orchestrator}.giveWay(*found, nil)
		if err == nil && !done.own {
			outcome = outcomeCleaned
			continue
		}
		if err == nil {
			err = done.err
		}
		outcome, err = told(err)
		return run, outcome, err
	}
}

// told returns the outcome for an error that a drain does not count as an error.
func told(err error) (string, error) {
	switch {
	case err == nil:
		return outcomeSettled, nil
	case errors.Is(err, ErrParked):
		return outcomeParked, nil
	case errors.Is(err, ErrSuspended):
		return outcomeSuspended, nil
	}
	return "", err
}
