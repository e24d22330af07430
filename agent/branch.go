package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/transcript"
)

// Branch starts session to from a version of session from, with what was said up to there. Whatever waits there does
// not wait in the branch. A repeat does nothing.
func (a *Agent[C]) Branch(ctx context.Context, from string, version int, to string) error {
	r, err := a.bot.Turn(ctx, from, version-1)
	switch {
	case errors.Is(err, checkpoint.ErrNotFound), err == nil && r.Turn+1 != version: // Newest is a number, too
		return ErrUnknown
	case err != nil:
		return err
	}
	st, err := a.bot.Inspect(ctx, to)
	switch {
	case err != nil || st.Turn >= 0: // a session that exists must not get what was said elsewhere
	case st.Run != nil: // in its first turn
		return ErrExists
	default:
		err = a.copy(ctx, from, to, r.State.named())
	}
	if err == nil {
		err = a.bot.Fork(ctx, from, r.Turn, to)
	}
	switch {
	case errors.Is(err, transcript.ErrTaken), errors.Is(err, checkpoint.ErrConflict):
		return ErrExists
	case err != nil || len(r.State.Open) == 0:
		return err
	}
	// A crash before this is healed by the first turn of the branch: it notices that it is another session.
	_, err = a.run(ctx, to, envelope{Op: opDrop}.input(branchID, ""), nil)
	return err
}

// branchID is the request id of the first turn of a branch whose source waits.
const branchID = "branch"

// mostCopied is how many messages one Copy has. A store bounds what a Copy may have, and its other callers may wait
// meanwhile.
const mostCopied = 4096

// copy gives what was said to another session, in parts. A copy that is cut off is repeated, or nobody names it.
func (a *Agent[C]) copy(ctx context.Context, from, to string, said []transcript.Span) error {
	for {
		part := transcript.First(said, mostCopied)
		err := a.stores.Transcript.Copy(ctx, a.key(from), a.key(to), part)
		said = newest(said, transcript.Count(said)-transcript.Count(part))
		if err != nil || len(said) == 0 {
			return err
		}
	}
}

// Delete removes a session, its children, and what was said in them. A repeat finishes what a crash has left.
func (a *Agent[C]) Delete(ctx context.Context, session string) error {
	r, err := a.newest(ctx, session)
	if err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	if err == nil {
		for child, name := range r.State.Children {
			t := a.tools[name]
			if t == nil || t.Child == nil {
				return fmt.Errorf("agent: session %q has the child %q, and no ChildTool %q", session, child, name)
			}
			if err := t.Child.remove(ctx, child); err != nil {
				return err
			}
		}
	}
	if err := a.bot.Delete(ctx, session); err != nil {
		return err
	}
	return a.deleteRest(ctx, session)
}

// deleteRest removes what is left of a session without its turns. A turn that was in flight may have begun children
// that no settled state has.
func (a *Agent[C]) deleteRest(ctx context.Context, session string) error {
	for _, t := range a.tools {
		if t.Child == nil {
			continue
		}
		if err := t.Child.removeUnder(ctx, session+"/"+t.Name+"/"); err != nil {
			return err
		}
	}
	if _, err := a.stores.Transcript.Trim(ctx, a.key(session), nil, time.Time{}); err != nil {
		return err
	}
	return a.wishes.Remove(ctx, a.key(session), "")
}
