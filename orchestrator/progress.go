package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/ids"
)

// An InputStatus says what has become of an input.
type InputStatus string

// The statuses of an input.
const (
	InputWaiting InputStatus = "waiting" // for the inputs before it, or for a process to run it
	InputRunning InputStatus = "running" // its run is in flight, also if it waits for a person
	InputSettled InputStatus = "settled"
	InputFailed  InputStatus = "failed" // Enqueue has accepted it, and its turn has failed for good
)

// A Progress says what has become of an input.
type Progress[S any] struct {
	Status InputStatus

	// Run is the run in flight of InputRunning.
	Run *InFlight

	// Result is the turn of InputSettled.
	Result *Result[S]

	// Problem is what the sender of an InputFailed may be told.
	Problem Problem
}

// Progress returns what has become of the input with a request id, whether Enqueue, Execute or Stream has taken it. It
// may be out of date when it arrives. It reads, and claims nothing.
//
// If nothing is known of the input, the error is checkpoint.ErrNotFound: it never came, its turn is no longer kept, it
// was abandoned, or its turn has failed and the caller of Execute was told. Of an input that has settled long ago,
// Progress reads the turns that came after it.
func (o *Orchestrator[S]) Progress(ctx context.Context, session, requestID string) (p Progress[S], err error) {
	if err = checkSession(session); err == nil {
		if wrong := ids.Check("request id", requestID); wrong != nil {
			err = &InputError{"request id", wrong.Error()}
		}
	}
	if err == nil {
		p, err = o.progress(ctx, session, requestID)
	}
	if err != nil {
		return p, &Error{Op: "progress", Session: session, Err: unavailable(err)}
	}
	return p, nil
}

// progress looks where an input is before it looks where the input goes from there: it waits, its run is in flight, and
// its turn has settled or failed.
func (o *codec[S]) progress(ctx context.Context, session, id string) (p Progress[S], err error) {
	accepted, err := o.engine.waiters().find(ctx, session, inbox.Input, id)
	if err != nil {
		return p, err
	}
	st := Standing{Session: session}
	if err := o.engine.inspect(ctx, &st); err != nil && !ofOneRow(err) && !isDrift(err) {
		return p, err
	}
	if st.Run != nil && st.Run.RequestID == id {
		return Progress[S]{Status: InputRunning, Run: st.Run}, nil
	}
	res, err := o.settledAs(ctx, session, id, accepted)
	switch {
	case err != nil:
		return p, err
	case res != nil:
		return Progress[S]{Status: InputSettled, Result: res}, nil
	case accepted != nil:
		return Progress[S]{Status: InputWaiting}, nil
	}
	failed, err := o.engine.waiters().find(ctx, session, inbox.Failed, id)
	switch {
	case err != nil:
		return p, err
	case failed == nil:
		return p, checkpoint.ErrNotFound
	}
	var in failedInput
	if json.Unmarshal(failed.Data, &in) != nil || in.Problem.Type == "" {
		in.Problem = botFailed
	}
	return Progress[S]{Status: InputFailed, Problem: in.Problem}, nil
}

// find returns an item of the inbox; nil if it is not there.
func (w waiters) find(
	ctx context.Context, session string, kind inbox.Kind, id string,
) (found *inbox.Item, err error) {
	if w.engine.options.Inbox == nil {
		return nil, nil
	}
	err = w.engine.read(ctx, func(ctx context.Context) error {
		it, err := w.engine.options.Inbox.Item(ctx, w.engine.key(session), kind, id)
		switch {
		case errors.Is(err, inbox.ErrNotFound):
			return nil
		case err != nil && !errors.Is(err, inbox.ErrDamaged):
			return err
		}
		found = &it
		return nil
	})
	return found, err
}

// clocksApart is how far the clocks of two stores may be apart. A turn that settled so long before an input was
// accepted is not the turn of this input.
const clocksApart = time.Minute

// settledAs returns the kept turn of an input; nil if there is none. accepted is the item of the input; nil if it does
// not wait.
func (o *codec[S]) settledAs(
	ctx context.Context, session, id string, accepted *inbox.Item,
) (*Result[S], error) {
	for cp, err := range o.engine.store.Turns(ctx, o.engine.key(session), checkpoint.Newest) {
		switch {
		case err != nil && ofOneRow(err):
			continue
		case err != nil:
			return nil, err
		case accepted != nil && cp.SavedAt.Before(accepted.At.Add(-clocksApart)):
			return nil, nil
		case cp.RequestID == id:
			return o.result(ctx, session, cp, false)
		}
	}
	return nil, nil
}
