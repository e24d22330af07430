package orchestrator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/owner"
)

// A failedInput is the Data of an item of the kind inbox.Failed.
type failedInput struct {
	storedInput

	// Type is the type of the error: its text may repeat what a user said.
	Type string `json:"type"`

	// Problem is what a client may be told.
	Problem Problem `json:"problem"`
}

// problemOf returns what a client may be told of an input that has failed for good.
func problemOf(why error) Problem {
	if errors.Is(why, ErrParked) { // after the last attempt, and nothing waits for a person
		return botFailed
	}
	return Public(why)
}

// The waiters are the inputs that wait in the inbox.
type waiters struct{ engine *engine }

func (e *engine) waiters() waiters { return waiters{e} }

// queueItem returns an input as an item of the queue of its session.
func (w waiters) queueItem(session string, in Input) (inbox.Item, error) {
	stored := storedInput{Text: in.Text, Data: in.Data, Origin: in.Origin, By: in.By, Kind: in.Kind}
	raw, err := json.Marshal(stored)
	if err != nil {
		return inbox.Item{}, &InputError{"data", err.Error()}
	}
	return inbox.Item{
		Key: w.engine.key(session), Kind: inbox.Input, ID: in.RequestID,
		By: digest(in.Text, compact(in.Data), string(in.Origin))[:idLen], Data: raw,
	}, nil
}

// waiting returns the inputs that wait in a session, oldest first.
func (w waiters) waiting(ctx context.Context, session string) (all []inbox.Item, err error) {
	if w.engine.options.Inbox == nil {
		return nil, nil
	}
	err = w.engine.read(ctx, func(ctx context.Context) error {
		all = nil
		for it, err := range w.engine.options.Inbox.Items(ctx, w.engine.key(session), inbox.Input) {
			if err != nil {
				return err
			}
			all = append(all, it)
		}
		return nil
	})
	return all, err
}

// forgetWaiting forgets an input that waits, or all of a session if requestID is "".
func (w waiters) forgetWaiting(ctx context.Context, session, requestID string) error {
	if w.engine.options.Inbox == nil {
		return nil
	}
	if requestID != "" {
		return w.engine.options.Inbox.Remove(ctx, w.engine.key(session), inbox.Input, requestID)
	}
	err := w.engine.options.Inbox.Remove(ctx, w.engine.key(session), inbox.Input)
	if err == nil {
		err = w.engine.options.Inbox.Remove(ctx, w.engine.key(session), inbox.Failed)
	}
	return err
}

// accept puts an input at the end of the queue of its session.
func (w waiters) accept(ctx context.Context, it inbox.Item) error {
	all, err := w.waiting(ctx, it.Session)
	if err != nil {
		return unavailable(err)
	}
	known, most := false, w.engine.options.Limits.Queue
	for _, other := range all {
		known = known || other.ID == it.ID
	}
	if !known && len(all) >= most {
		return fmt.Errorf("%w: %d inputs, and Limits.Queue is %d", ErrQueueFull, len(all), most)
	}
	first, err := w.engine.options.Inbox.Post(ctx, it)
	switch {
	case invalid(err):
		return &InputError{"text and data", err.Error()}
	case err != nil && !owner.Definite(err):
		return indeterminate(err)
	case err != nil:
		return unavailable(err)
	case !first:
		return ErrRequestReused
	}
	return nil
}

// taken forgets the input of a call that was accepted before, and has ended with err. If that fails, the next look at
// the queue finds that the turn has settled.
func (w waiters) taken(ctx context.Context, k *call, err error) {
	if err != nil && !final(err) {
		return
	}
	if err := w.forgetWaiting(context.WithoutCancel(ctx), k.session, k.input.RequestID); err != nil {
		w.engine.log.WarnContext(ctx, "input that has waited is not forgotten; it is found later", "session", k.session,
			"request", k.input.RequestID, w.engine.why(err))
	}
}

// A queueRun answers one input of a queue.
type queueRun func(ctx context.Context, session string, in Input) error

// serveQueue runs inputs that wait, in their order, and returns how many have settled. It stops at an input that cannot
// be finished now, and returns why.
func (w waiters) serveQueue(ctx context.Context, all []inbox.Item, run queueRun) (settled int, err error) {
	for _, it := range all {
		var stored storedInput
		if err := json.Unmarshal(it.Data, &stored); err != nil {
			return settled, inbox.Damaged(it, unread(err))
		}
		in := stored.input(it.ID)
		err := run(ctx, it.Session, in)
		if parked, ok := errors.AsType[*Error](err); ok && errors.Is(err, ErrParked) && parked.RunID != "" {
			found, failed := w.engine.wanted(ctx, it.Session, parked.RunID)
			if failed == nil && found != nil {
				_, failed = w.engine.end(ctx, *found)
			}
			if failed != nil {
				return settled, failed
			}
		} else if err != nil && !final(err) {
			return settled, err
		}
		if err != nil {
			err = w.setAside(ctx, it, stored, err)
		} else {
			settled++
		}
		if err == nil {
			err = w.engine.options.Inbox.Remove(ctx, it.Key, inbox.Input, it.ID)
		}
		if err != nil { // what comes of the input is durable, so the next look removes the item
			return settled, &Error{Op: "queue", Session: it.Session, Err: unavailable(err)}
		}
	}
	return settled, nil
}

// final reports whether err says that the turn of an input has failed, and not a store or another turn.
func final(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || errors.Is(err, ErrIndeterminate) || errors.Is(err, ErrSuspended) || errors.Is(err, errNotLogged) {
		return false
	}
	if e.refused || ofTheBot[e.Op] {
		return true
	}
	if _, ok := errors.AsType[*InputError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*StateError](err); ok {
		return true
	}
	return errors.Is(err, ErrRequestReused) || errors.Is(err, ErrAbandoned) || errors.Is(err, ErrTurnTimeout) ||
		errors.Is(err, ErrMaxIterations)
}

// setAside keeps an input whose turn has failed. Of a session so many are kept as may wait, the newest.
func (w waiters) setAside(ctx context.Context, it inbox.Item, in storedInput, why error) error {
	var run string
	if failed, ok := errors.AsType[*Error](why); ok {
		run = failed.RunID
	}
	w.engine.log.ErrorContext(ctx, "input that has waited is set aside: its turn has failed", "session", it.Session,
		"request", it.ID, "run", run, "type", errorType(why), w.engine.why(why))
	var kept []string
	for old, err := range w.engine.options.Inbox.Items(ctx, it.Key, inbox.Failed) {
		if err != nil && old.ID == "" {
			return err
		}
		kept = append(kept, old.ID)
	}
	if more := len(kept) + 1 - w.engine.options.Limits.Queue; more > 0 {
		kept = kept[:min(more, inbox.MaxIDs)]
		if err := w.engine.options.Inbox.Remove(ctx, it.Key, inbox.Failed, kept...); err != nil {
			return err
		}
	}
	it.Kind = inbox.Failed
	whole := failedInput{in, errorType(why), problemOf(why)}
	for _, doc := range []failedInput{whole, {Type: whole.Type}} { // the second is small
		raw, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		it.Data = raw
		if _, err = w.engine.options.Inbox.Post(ctx, it); !invalid(err) {
			return err
		}
	}
	return nil
}
