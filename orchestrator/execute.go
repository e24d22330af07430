package orchestrator

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
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
// If the turn must go on although the client has gone, give Execute context.WithoutCancel(ctx), and set
// Limits.TurnTimeout. Abandon ends a turn, in any process.
func (o *Orchestrator[S]) Execute(ctx context.Context, session string, in Input, c *CallOptions) (*Result[S], error) {
	return o.execute(ctx, o.newCall(session, c), in)
}

func (o *Orchestrator[S]) execute(ctx context.Context, k *call, in Input) (res *Result[S], err error) {
	defer k.close(ctx)
	defer func() { k.refused(err) }()
	if err := in.check(k.session, o.Limits.Input); err != nil {
		return nil, &Error{Op: "input", Session: k.session, Err: err}
	}
	v, err := o.visit(ctx, k, in.RequestID, true)
	if err != nil {
		return nil, err
	}
	defer v.own.Done()
	return v.serve(in)
}

// serve answers in. For a request id that has settled it returns the settled turn. Otherwise it runs a turn, after any
// run in flight.
func (v *visit[S]) serve(in Input) (*Result[S], error) {
	f := v.newFlight(in)
	if v.own.Answered != nil {
		return v.replay(*v.own.Answered, f.id)
	}
	_ = v.deliver(false) // what fails stays owed
	var earlier outcome[S]
	for {
		found, err := f.open()
		if err != nil && !errors.Is(err, ErrIndeterminate) {
			found, err = v.ownInFlight(f, err)
		}
		switch {
		case found == nil && err != nil:
			f.endTrace(Event{Kind: TurnRefused, Err: err})
			return nil, v.refused(err)
		case found == nil:
			return v.answer(f, earlier)
		}
		done, err := v.giveWay(*found, f)
		switch {
		case err != nil:
			f.endTrace(Event{Kind: TurnRefused, Err: err})
			return nil, err
		case done.own:
			return done.res, done.err
		case done.res != nil || done.err != nil:
			earlier = done
			v.call.again()
		}
	}
}

// answer finishes the call's own turn.
func (v *visit[S]) answer(f *flight[S], earlier outcome[S]) (*Result[S], error) {
	res, err := f.finish(true)
	if err != nil {
		return nil, err
	}
	res.Resumed, res.ResumeErr = earlier.res, earlier.err
	return res, nil
}

// ownInFlight returns the run of f if an earlier call with the same request id has begun that run. An accepted input
// can no longer be refused. If the run cannot be taken up, or cannot be read, the outcome is unknown. If there is no
// run, ownInFlight bars the Begin of an earlier call, which may still be on its way to the store.
func (v *visit[S]) ownInFlight(f *flight[S], refusal error) (found *snapshot.Run, err error) {
	if f.input.RequestID == "" || v.Snapshots == nil {
		return nil, refusal
	}
	err = v.own.Once(v.own.Ctx, func(ctx context.Context) (err error) {
		found, err = v.o.inFlight(ctx, v.own.Session)
		return err
	})
	if err == nil && found != nil && v.own.Lost() == nil {
		err = v.meet(*found, f)
	}
	if err == nil && (found == nil || found.ID != f.id) && v.own.Ctx.Err() == nil {
		// landed is a run that was begun since.
		var landed snapshot.Run
		var over bool
		if landed, over, err = v.bar(); !over {
			found = &landed
			if err == nil {
				err = v.meet(landed, f)
			}
		}
	}
	own := err == nil && found != nil && found.ID == f.id
	switch {
	case own && v.own.Lost() == nil:
		return found, nil
	case own || err != nil:
		e := f.mine(refusal)
		e.Err = indeterminate(e.Err)
		return nil, e
	}
	return nil, refusal
}

// refused adds ErrShuttingDown to the error of a turn that could not begin because of Shutdown.
func (v *visit[S]) refused(err error) error {
	if e, ok := errors.AsType[*Error](err); ok && errors.Is(context.Cause(v.own.Ctx), lock.ErrHandoff) &&
		!errors.Is(err, ErrIndeterminate) {
		e.Err = fmt.Errorf("%w: %w", ErrShuttingDown, e.Err)
	}
	return err
}

// replay returns the turn that the request id opened before.
func (v *visit[S]) replay(cp checkpoint.Checkpoint, runID string) (*Result[S], error) {
	if cp.RunID != runID {
		return nil, v.fail("input", ErrRequestReused)
	}
	res, err := v.o.result(v.own.Ctx, v.own.Session, cp, v.call.force)
	if err != nil {
		return nil, v.fail("drift", err)
	}
	res.Replayed = true
	v.call.emit(Event{Kind: TurnSettled, RunID: cp.RunID, Turn: cp.Turn, Usage: res.Usage, replayed: true})
	return res, nil
}

// Resume finishes the run in flight of session. If no run is in flight, it returns ErrNothingToResume and writes
// nothing.
func (o *Orchestrator[S]) Resume(ctx context.Context, session string, c *CallOptions) (res *Result[S], err error) {
	k := o.newCall(session, c)
	defer k.close(ctx)
	defer func() { k.refused(err) }()
	if err := checkSession(session); err != nil {
		return nil, &Error{Op: "resume", Session: session, Err: err}
	}
	if err := o.resumable(ctx, k); err != nil {
		return nil, &Error{Op: "resume", Session: session, Err: err}
	}
	v, err := o.visit(ctx, k, "", true)
	if err != nil {
		return nil, err
	}
	defer v.own.Done()
	_ = v.deliver(false)
	return v.resume()
}

// resumable returns why Resume can do nothing, before anything is written.
func (o *Orchestrator[S]) resumable(ctx context.Context, k *call) error {
	found, err := o.inFlight(ctx, k.session)
	switch {
	case err != nil:
		return err
	case found == nil:
		return ErrNothingToResume
	case found.Status == snapshot.Ended:
		return nil
	}
	if err := o.usable(*found, k.force, k.force); err != nil {
		if over, _ := o.kept(ctx, *found, checkpoint.Newest); !over {
			return err
		}
	}
	return nil
}

// resume finishes the run that is in flight now.
func (v *visit[S]) resume() (*Result[S], error) {
	for {
		found, err := v.o.inFlight(v.own.Ctx, v.own.Session)
		if err != nil {
			return nil, v.fail("resume", err)
		}
		if found == nil {
			return nil, v.fail("resume", ErrNothingToResume)
		}
		done, err := v.giveWay(*found, nil)
		if err != nil {
			return nil, err
		}
		if done.own {
			return done.res, done.err
		}
	}
}

// inFlight returns the run of a session in the snapshot store; nil if no run is in flight. A damaged run comes with its
// error.
func (o *Orchestrator[S]) inFlight(ctx context.Context, session string) (*snapshot.Run, error) {
	if o.Snapshots == nil {
		return nil, nil
	}
	for r, err := range o.Snapshots.Runs(ctx, snapshot.Query{Key: snapshot.Key(o.key(session))}) {
		if err != nil && !ofOneRow(err) {
			return nil, err
		}
		return &r, err
	}
	return nil, nil
}
