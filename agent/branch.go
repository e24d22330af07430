package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/transcript"
)

// Branch starts session to from a version of session from, with what was said up to there. Whatever waits there does
// not wait in the branch. A repeat does nothing.
func (a *Agent[C]) Branch(ctx context.Context, from string, version int, to string) error {
	r, err := a.bot.Turn(ctx, from, version-1)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return ErrUnknown
	case err != nil:
		return err
	}
	err = a.stores.Transcript.Copy(ctx, a.key(from), a.key(to), r.State.Said)
	switch {
	case errors.Is(err, transcript.ErrTaken):
		return ErrExists
	case err != nil:
		return err
	}
	if err := a.bot.Fork(ctx, from, r.Turn, to); err != nil || len(r.State.Open) == 0 {
		return err
	}
	// A crash before this is healed by the first turn of the branch: it notices that it is another session.
	_, err = a.run(ctx, to, envelope{Op: opDrop}.input("branch", ""), nil)
	return err
}

// Delete removes a session, its children, and what was said in them. A repeat finishes what a crash has left.
func (a *Agent[C]) Delete(ctx context.Context, session string) error {
	r, err := a.newest(ctx, session)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	if err == nil {
		for child, tool := range r.State.Children {
			if t := a.tools[tool]; t != nil && t.Child != nil {
				if err := t.Child.remove(ctx, child); err != nil {
					return err
				}
			}
		}
	}
	if err := a.bot.Delete(ctx, session); err != nil {
		return err
	}
	if _, err := a.stores.Transcript.Trim(ctx, a.key(session), nil, time.Time{}); err != nil {
		return err
	}
	if a.stores.Inbox == nil {
		return nil
	}
	return a.stores.Inbox.Remove(ctx, a.key(session), "")
}
