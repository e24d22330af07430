package orchestrator

import (
	"context"
	"errors"
	"fmt"
)

// Put changes the state of a session by fn, as a turn of its own. No intent runs and Begin is not called: fn is in its
// place. Put is for what a program does to a session: it creates the session, corrects the state, or imports one.
//
// Put waits for the session as Execute does. It finishes the run in flight first, as Options.OnInterrupted says. If the
// session has another version then, the error is a *VersionError, and fn is not called. So a caller that has read a
// Result changes what it has read, or nothing.
//
// fn is called once at most, in the process of the call. If it fails, nothing is written, and the error is its own.
// What it does outside of the state is not taken back. Like Begin, it cannot use Once. The turn is settled by one
// write: no run is in flight meanwhile. So if the process dies, the turn is settled or fn has changed nothing, and no
// drain goes on with it.
//
// In all else it is a turn: it has a number, in is stored with it, it is owed and delivered, and in the turn log, and
// events and Limits apply to it. A repeat with the same request id and input returns the settled turn, whatever its
// version. An Execute with this request id is ErrRequestReused.
func (o *Orchestrator[S]) Put(
	ctx context.Context, session string, version int, in Input, fn func(context.Context, *Turn[S]) error,
	c *CallOptions,
) (res *Result[S], err error) {
	k := o.engine.listeners.newCall(session, c)
	defer k.close(ctx)
	defer func() { k.refused(err) }()
	k.input = in
	if err := o.defined("input", session); err != nil {
		return nil, err
	}
	err = in.check(session, o.engine.options.Limits.Input)
	switch {
	case err != nil:
	case version < NoTurns:
		err = &InputError{"version", fmt.Sprintf("%d is none", version)}
	case fn == nil:
		err = errors.New("no function")
	}
	if err != nil {
		return nil, &Error{Op: "input", Session: session, Err: err}
	}
	if o.engine.options.Inbox != nil {
		if _, err := o.afterQueue(ctx, k); err != nil {
			return nil, err
		}
	}
	v, err := o.engine.visit(ctx, k, in.RequestID, true)
	if err != nil {
		return nil, err
	}
	defer v.own.Done()
	s := stay[S]{v, o}
	x := s.newExecution(in, &put{version})
	x.change = fn
	return s.answer(x)
}
