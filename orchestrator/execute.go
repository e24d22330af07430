package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Execute runs one turn. A Result means that the turn is settled. Every other outcome is an error, which is an *Error.
//
// In a handler, give Execute the context of the request. The end of ctx does not undo the turn:
//
//   - With a snapshot store, the run stays in flight for Resume, the next input or the watch of package bootdrain. The
//     error is ErrIndeterminate and the cause of ctx.
//   - Without a snapshot store, the turn is over, and the error is the cause of ctx.
//   - If the turn has begun to settle, it settles, whether ctx has ended or not.
//
// A second Execute or Stream with the same request id and the same input, while the first is at work in this process,
// joins the first: it returns the same outcome, and gets the events from the first one on. If the context of the first
// ends, the second goes on with the turn. A call from within a turn does not join. It waits for the session.
//
// If the turn must go on although the client has gone, give Execute context.WithoutCancel(ctx), and set
// Limits.TurnTimeout. Abandon ends a turn, in any process.
func (o *Orchestrator[S]) Execute(ctx context.Context, session string, in Input, c *CallOptions) (*Result[S], error) {
	return o.execute(ctx, o.engine.listeners.newCall(session, c), in)
}

func (o *Orchestrator[S]) execute(ctx context.Context, k *call, in Input) (res *Result[S], err error) {
	defer k.close(ctx)
	defer func() {
		err = k.unsure(err)
		k.refused(err)
	}()
	k.input = in
	if err := o.defined("input", k.session); err != nil {
		return nil, err
	}
	if err := in.check(k.session, o.engine.options.Limits.Input); err != nil {
		return nil, &Error{Op: "input", Session: k.session, Err: err}
	}
	if o.engine.options.Inbox != nil && !k.queued {
		var mine bool
		if mine, err = o.afterQueue(ctx, k); err != nil {
			return nil, err
		}
		if mine {
			defer func() { o.engine.waiters().taken(ctx, k, err) }()
		}
	}
	if in.RequestID != "" && owner.ScopeIn(ctx).Session() == "" {
		return o.join(ctx, k)
	}
	return o.claim(ctx, k)
}

// afterQueue runs the inputs that wait in the session of k. mine says that the input of k is one of them: those that
// wait behind it are left.
func (o *Orchestrator[S]) afterQueue(ctx context.Context, k *call) (mine bool, err error) {
	all, err := o.engine.waiters().waiting(ctx, k.session)
	if err != nil && !isAway(err) && !owner.Definite(err) && ctx.Err() == nil { // the connection broke, say
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err != nil {
		return false, &Error{Op: "begin", Session: k.session, Err: unavailable(err)}
	}
	for i, it := range all {
		if it.ID == k.input.RequestID {
			own, err := o.engine.waiters().queueItem(k.session, k.input)
			if mine = err == nil && own.By == it.By; mine {
				all = all[:i]
				break
			}
		}
	}
	_, err = o.engine.waiters().serveQueue(ctx, all, func(ctx context.Context, session string, in Input) error {
		earlier := o.engine.listeners.newCall(session, nil)
		earlier.queued = true
		_, err := o.execute(ctx, earlier, in)
		return err
	})
	if err == nil {
		return mine, nil
	}
	e := &Error{Op: "begin", Session: k.session, Err: err}
	if of, ok := errors.AsType[*Error](err); ok {
		e.Err = of.Err
	}
	if errors.Is(e.Err, ErrIndeterminate) { // it is about the other input
		e.Err = fmt.Errorf("%w: %w", ErrInterrupted, outside(e.Err))
	}
	return false, e
}

// join answers the input of k, unless a call with the same input is at work in this process. In that case join waits
// for that call and returns its outcome. If that call leaves the turn because its own context has ended, k goes on.
//
// A call with another input, or another Force, under the same request id does not join. It waits for the session. So
// does a call from within a turn: the other call may wait for that turn. Nor does any call join it.
func (o *Orchestrator[S]) join(ctx context.Context, k *call) (*Result[S], error) {
	for {
		mine := &led{request: request{k.session, k.input.RequestID}, input: k.input, force: k.force}
		first := o.engine.leaders.enter(mine)
		switch {
		case first == nil:
			k.led = mine
			return o.lead(ctx, k)
		case !first.same(k.input, k.force):
			return o.claim(ctx, k)
		}
		j := &joining{hand: k.hand, answer: make(chan joinedAnswer, 1)}
		if !first.join(j) {
			continue
		}
		var said joinedAnswer
		select {
		case said = <-j.answer:
		case <-ctx.Done():
			if first.part(j) {
				return nil, k.parted(ctxcause.Of(ctx))
			}
			said = <-j.answer
		}
		if !said.alone {
			res, _ := said.res.(*Result[S])
			return res, said.err
		}
		k.again()
	}
}

// lead answers the input of k, and gives the outcome to the calls that have joined k.
func (o *Orchestrator[S]) lead(ctx context.Context, k *call) (res *Result[S], err error) {
	defer func() {
		err = k.unsure(err)
		k.refused(err)
		end, joined := o.engine.leaders.leave(k.led)
		// A turn that failed by itself is over, also if ctx has ended since.
		failed := end != nil && end.Kind == TurnFailed && o.engine.options.Snapshots != nil
		panics := res == nil && err == nil
		alone := panics || err != nil && ctx.Err() != nil && !failed
		for _, j := range joined {
			if end != nil && !alone {
				j.hand(*end)
			}
			j.answer <- joinedAnswer{alone: alone, res: res.copy(), err: err}
		}
	}()
	return o.claim(ctx, k)
}

// claim waits for the session, and answers the input of k.
func (o *Orchestrator[S]) claim(ctx context.Context, k *call) (*Result[S], error) {
	v, err := o.engine.visit(ctx, k, k.input.RequestID, true)
	if err != nil {
		return nil, err
	}
	defer v.own.Done()
	s := stay[S]{v, o}
	return s.answer(s.newExecution(k.input, nil))
}

// same reports whether the call is for the same input.
func (l *led) same(in Input, force bool) bool {
	return l.force == force && l.input.Origin == in.Origin && l.input.Text == in.Text &&
		compact(l.input.Data) == compact(in.Data)
}

// parted returns the error of a call that no longer waits for the call that it has joined.
func (k *call) parted(why error) error {
	err := &Error{Op: "claim", Session: k.session, Err: indeterminate(why)}
	left := Event{Kind: TurnLeft, Session: k.session, At: time.Now(), Err: err}
	k.hand(left.of(k.input))
	return err
}

// copy returns a Result that shares no state with res.
func (res *Result[S]) copy() *Result[S] {
	if res == nil {
		return nil
	}
	c := *res
	if raw, err := encode(&res.State); err == nil {
		if state, err := decode[S](raw); err == nil {
			c.State = state
		}
	}
	c.Resumed = res.Resumed.copy()
	return &c
}

// answer answers the input of x. For a request id that has settled it returns the settled turn. Otherwise it runs a
// turn, after any run in flight.
func (s stay[S]) answer(x *execution[S]) (*Result[S], error) {
	if s.own.Grant.Answered != nil {
		return s.replay(*s.own.Grant.Answered, x.run.row.ID)
	}
	_ = s.deliver(false) // what fails stays owed
	var earlier outcome[S]
	for {
		found, err := x.accept()
		if err != nil && !errors.Is(err, ErrIndeterminate) {
			found, err = x.ownInFlight(err)
		}
		switch {
		case found == nil && err != nil:
			x.tracer.end(Event{Kind: TurnRefused, Err: err}, "")
			return nil, s.notBegun(err)
		case found == nil:
			res, err := x.work()
			if err == nil {
				res.Resumed, res.ResumeErr = earlier.res, earlier.err
			}
			return res, err
		}
		done, err := s.giveWay(*found, x)
		switch {
		case err != nil:
			x.tracer.end(Event{Kind: TurnRefused, Err: err}, "")
			return nil, err
		case done.own:
			return done.res, done.err
		case done.res != nil || done.err != nil:
			earlier = done
			s.call.again()
		}
	}
}

// ownInFlight returns the run of x if an earlier call with the same request id has begun that run. An accepted input
// can no longer be refused. If the run cannot be taken up, or cannot be read, the outcome is unknown. If there is no
// run, ownInFlight bars the Begin of an earlier call, which may still be on its way to the store. If the session is
// lost before, that Begin cannot be barred, and the outcome is unknown too.
func (x *flight) ownInFlight(refusal error) (found *snapshot.Run, err error) {
	own, slot := &x.visit.own, x.run.slot
	if x.input.RequestID == "" || x.engine().options.Snapshots == nil || x.put != nil {
		return nil, refusal
	}
	err = own.Once(own.Ctx, func(ctx context.Context) (err error) {
		found, err = slot.find(ctx)
		return err
	})
	if err == nil && found != nil && own.Lost() == nil {
		err = x.meet(*found)
	}
	bars := own.Lost() == nil
	if err == nil && (found == nil || found.ID != x.run.row.ID) && bars {
		// landed is a run that was begun since.
		var landed snapshot.Run
		var over bool
		if landed, over, err = slot.bar(); !over {
			found = &landed
			if err == nil {
				err = x.meet(landed)
			}
		}
	}
	ours := err == nil && found != nil && found.ID == x.run.row.ID
	switch {
	case owner.Refused(err) && owner.Refused(refusal): // the store is away, and the input was not refused
		return nil, refusal
	case ours && own.Lost() == nil:
		return found, nil
	case ours || err != nil || !bars && !slot.known:
		e := x.mine(refusal)
		e.Err = indeterminate(e.Err)
		return nil, e
	}
	return nil, refusal
}

// notBegun returns the error of a turn that could not begin. It adds ErrShuttingDown if Shutdown is the cause, and
// ErrUnavailable if a store is.
func (v *visit) notBegun(err error) error {
	e, ok := errors.AsType[*Error](err)
	switch {
	case !ok || errors.Is(err, ErrIndeterminate):
	case errors.Is(ctxcause.Cause(v.own.Ctx), lock.ErrHandoff):
		e.Err = fmt.Errorf("%w: %w", ErrShuttingDown, e.Err)
	default:
		e.Err = unavailable(e.Err)
	}
	return err
}

// replay returns the turn that the request id opened before.
func (s stay[S]) replay(cp checkpoint.Checkpoint, runID string) (*Result[S], error) {
	if cp.RunID != runID {
		return nil, s.err("input", ErrRequestReused)
	}
	res, err := s.bot.result(s.own.Ctx, s.own.Grant.Session, cp, s.call.force)
	if err != nil {
		return nil, s.err("drift", err)
	}
	res.Replayed = true
	if s.engine.options.Snapshots == nil || isPut(cp) { // no run was left to tell that the turn log may lack the end
		s.logSettled(cp)
	}
	settled := Event{
		Kind: TurnSettled, RunID: cp.RunID, Turn: cp.Turn, Usage: res.Usage, Failed: res.Failed, replayed: true,
	}
	s.emit(settled.of(res.Input))
	return res, nil
}

// Resume finishes the run in flight of session. If no run is in flight, it returns ErrNothingToResume and writes
// nothing.
func (o *Orchestrator[S]) Resume(ctx context.Context, session string, c *CallOptions) (res *Result[S], err error) {
	k := o.engine.listeners.newCall(session, c)
	defer k.close(ctx)
	defer func() { k.refused(err) }()
	if err := o.defined("resume", session); err != nil {
		return nil, err
	}
	if err := checkSession(session); err != nil {
		return nil, &Error{Op: "resume", Session: session, Err: err}
	}
	if found, err := o.resumable(ctx, k); err != nil {
		return nil, &Error{
			Op: "resume", Session: session, Turn: found.Turn, RunID: found.ID, Err: unavailable(err),
		}
	}
	v, err := o.engine.visit(ctx, k, "", true)
	if err != nil {
		return nil, err
	}
	defer v.own.Done()
	s := stay[S]{v, o}
	_ = s.deliver(false)
	return s.resume()
}

// resumable returns why Resume can do nothing, before anything is written, and the run that it found.
func (o *Orchestrator[S]) resumable(ctx context.Context, k *call) (snapshot.Run, error) {
	var found *snapshot.Run
	err := o.engine.read(ctx, func(ctx context.Context) (err error) {
		found, err = o.engine.inFlight(ctx, k.session)
		return err
	})
	switch {
	case err != nil:
		return snapshot.Run{}, err
	case found == nil:
		return snapshot.Run{}, ErrNothingToResume
	case found.Status == snapshot.Ended:
		return *found, nil
	}
	// Migrate is for the owner of the session.
	if err := o.checkUsable(ctx, *found, nil, k.force || o.def.Migrate != nil, k.force); err != nil {
		var turn *checkpoint.Checkpoint
		_ = o.engine.read(ctx, func(ctx context.Context) (err error) {
			turn, err = o.engine.settledBy(ctx, *found, checkpoint.Newest)
			return err
		})
		if turn == nil {
			return *found, err
		}
	}
	return *found, nil
}

// resume finishes the run that is in flight now.
func (s stay[S]) resume() (*Result[S], error) {
	for {
		found, err := s.slot.find(s.own.Ctx)
		if err != nil {
			return nil, s.err("resume", unavailable(err))
		}
		if found == nil {
			return nil, s.err("resume", ErrNothingToResume)
		}
		done, err := s.giveWay(*found, nil)
		if err != nil {
			return nil, err
		}
		if done.own {
			return done.res, done.err
		}
	}
}
