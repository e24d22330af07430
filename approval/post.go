package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Posted is an answer that lies in the inbox, or was taken before. Its turn is still to be run: Execute of the
// orchestrator with Input, in the session of the question. Done is told of the end.
type Posted[S any] struct {
	Input orchestrator.Input

	desk    *Desk[S]
	session string
	id      string // of the question
	by      string
	repeats bool // there is nothing to remove
}

// Execute posts an answer, and runs its turn. A repeat of an answer that was taken gets the result of its turn.
func (d *Desk[S]) Execute(ctx context.Context, session, id string, a Answer) (*orchestrator.Result[S], error) {
	p, err := d.Post(ctx, session, id, a)
	if err != nil {
		return nil, err
	}
	return p.run(ctx)
}

func (p *Posted[S]) run(ctx context.Context) (*orchestrator.Result[S], error) {
	res, err := p.desk.Bot.Execute(ctx, p.session, p.Input, nil)
	return res, p.Done(ctx, res, err)
}

// Post leaves an answer in the inbox, and returns the turn to run.
func (d *Desk[S]) Post(ctx context.Context, session, id string, a Answer) (*Posted[S], error) {
	for range 2 {
		q, err := d.question(ctx, session, id)
		if err != nil {
			return nil, err
		}
		if q == nil {
			return d.answeredBefore(ctx, session, id, a)
		}
		switch {
		case a.Client && !q.Client:
			return nil, ErrDenied
		case a.Sum != q.Sum:
			return nil, ErrChanged
		}
		p, err := d.taking(session, *q, a)
		if err != nil {
			return nil, err
		}
		if err := d.post(ctx, session, *q, a); err != nil {
			return nil, err
		}
		// Another answer may have been taken, and removed, before this one was posted.
		now, err := d.question(ctx, session, id)
		if err != nil {
			return nil, err
		}
		if now != nil && now.Sum == q.Sum {
			return p, nil
		}
		if err := d.remove(ctx, session, id); err != nil {
			return nil, err
		}
	}
	return nil, ErrChanged
}

// answeredBefore returns the turn that has taken an answer to a question that is no longer asked. The same answer gets
// its reply, and another one is told that it was not the first. The turn runs nothing.
func (d *Desk[S]) answeredBefore(ctx context.Context, session, id string, a Answer) (*Posted[S], error) {
	q, err := d.before(ctx, session, id)
	switch {
	case err != nil:
		return nil, err
	case q == nil || !q.Answered:
		return nil, ErrNotAsked
	case a.Client && !q.Client:
		return nil, ErrDenied
	case a.Sum != q.Sum:
		return nil, ErrChanged
	case q.By != "" && q.By != a.By:
		return nil, ErrAnswered
	}
	p, err := d.taking(session, *q, a)
	if p != nil {
		p.repeats = true
	}
	return p, err
}

// taking returns the turn that takes an answer.
func (d *Desk[S]) taking(session string, q Asked, a Answer) (*Posted[S], error) {
	in, err := foreign.Ask("Desk.Answer", func() (orchestrator.Input, error) {
		return d.Answer(q.Question, Answer{Data: a.Data, By: a.By})
	})
	if err != nil {
		_, input := errors.AsType[*orchestrator.InputError](err)
		if !input && foreign.PanicOf(err) == nil {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		return nil, err
	}
	in.RequestID, in.Origin, in.By = q.request(), orchestrator.FromAnswer, a.By
	return &Posted[S]{Input: in, desk: d, session: session, id: q.ID, by: a.By}, nil
}

// removePatience is how long it may take to remove an answer that was taken.
const removePatience = 5 * time.Second

// Done removes the answer from the inbox if it is of no more use: its turn has ended with res or err. Done returns what
// the person is told: nil if the turn has taken the answer.
func (p *Posted[S]) Done(ctx context.Context, res *orchestrator.Result[S], err error) error {
	over, told := p.taken(res, err)
	if !over || p.repeats {
		return told
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), removePatience)
	defer cancel()
	if left := p.desk.remove(within, p.session, p.id); left != nil {
		p.desk.report(ctx, left) // Run removes it
	}
	return told
}

// taken reports whether an answer is of no more use, and what the person is told. A bot that still asks may have taken
// the same answer of another person.
func (p *Posted[S]) taken(res *orchestrator.Result[S], err error) (over bool, told error) {
	switch {
	case err == nil && res.Input.By != p.by:
		return true, ErrAnswered
	case err == nil:
		return true, nil
	case errors.Is(err, orchestrator.ErrRequestReused):
		return true, ErrAnswered
	}
	return orchestrator.Public(err).Type == "invalid", err
}

// post leaves an answer in the inbox. It fails if another answer is there.
func (d *Desk[S]) post(ctx context.Context, session string, q Asked, a Answer) error {
	it := inbox.Item{
		Key: d.key(session), Kind: inbox.Answer, ID: q.ID, By: a.By, Shown: q.marked(), Data: a.Data,
	}
	for range 3 { // remove what is stale, leave the answer, and look which one is there
		old, err := d.Inbox.Item(ctx, it.Key, it.Kind, it.ID)
		there, meant := !errors.Is(err, inbox.ErrNotFound), false
		if _, damaged := errors.AsType[*inbox.DamagedError](err); there && err != nil && !damaged {
			return &foreign.StoreError{Err: err}
		}
		if there {
			if meant, err = d.meant(ctx, session, q, old); err != nil {
				return err
			}
		}
		switch {
		case !there && q.expired(time.Now()):
			return ErrExpired
		case !there:
			if err := d.leave(ctx, it); err != nil {
				return err
			}
		case !meant: // it is an answer to what was asked before
			if err := d.remove(ctx, session, q.ID); err != nil {
				return err
			}
		case old.By == a.By && sameJSON(old.Data, a.Data):
			return nil
		default:
			return ErrAnswered
		}
	}
	return nil
}

// leave posts an answer. The next look at the inbox tells whether it was the first.
func (d *Desk[S]) leave(ctx context.Context, it inbox.Item) error {
	first, err := d.Inbox.Post(ctx, it)
	switch {
	case errors.Is(err, inbox.ErrInvalid):
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	case err != nil:
		return &foreign.StoreError{Err: err}
	case !first:
		return ErrAnswered
	}
	return nil
}

func (d *Desk[S]) remove(ctx context.Context, session, id string) error {
	if err := d.Inbox.Remove(ctx, d.key(session), inbox.Answer, id); err != nil {
		return &foreign.StoreError{Err: err}
	}
	return nil
}

func sameJSON(a, b json.RawMessage) bool {
	x, errX := jsonvalue.Canonical(a)
	y, errY := jsonvalue.Canonical(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
