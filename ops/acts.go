package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/store"
)

// A state is as it is stored.
type state = json.RawMessage

// A HeldError says that a living process owns the session and goes on, so that the act was not done. Abandon and Delete
// take the session from its owner.
type HeldError struct {
	store.Key
	Owner     string
	LeaseLeft time.Duration
}

// Error names the owner, and what works.
func (e *HeldError) Error() string {
	return fmt.Sprintf(
		"ops: session %q is owned by process %s, by a lease of %v that it renews: wait, or abandon its run",
		e.Session, e.Owner, e.LeaseLeft.Round(time.Second))
}

// Unwrap returns lock.ErrHeld.
func (e *HeldError) Unwrap() error { return lock.ErrHeld }

// act calls f, and logs that it was done or not, and by whom. attrs are what the act is about.
func (r *Room) act(
	ctx context.Context, by string, act Act, attrs []any, f func() (done bool, err error),
) (bool, error) {
	if by == "" {
		return false, fmt.Errorf("ops: %w: an act needs an actor", store.ErrInvalid)
	}
	done, err := f()
	done = done && err == nil // of what has failed nobody knows whether it was done
	attrs = append([]any{"act", string(act), "by", by}, append(attrs, "done", done)...)
	if err != nil {
		r.o.Logger.WarnContext(ctx, "act", append(attrs, "err", logtext.Of(err))...)
		return done, err
	}
	r.o.Logger.InfoContext(ctx, "act", attrs...)
	return done, nil
}

func about(k store.Key) []any { return []any{"orchestrator", k.Orchestrator, "session", k.Session} }

// on is act for a session that a bot knows.
func (r *Room) on(
	ctx context.Context, by string, act Act, k store.Key,
	f func(*orchestrator.Orchestrator[state]) (done bool, err error),
) (bool, error) {
	return r.act(ctx, by, act, about(k), func() (bool, error) {
		bot, err := r.Bot(k.Orchestrator)
		if err == nil {
			err = r.known(ctx, k)
		}
		if err != nil {
			return false, err
		}
		done, err := f(bot)
		if errors.Is(err, orchestrator.ErrBusy) {
			if st, unread := bot.Inspect(ctx, k.Session); unread == nil && st.Owner != "" {
				err = &HeldError{k, st.Owner, st.LeaseLeft}
			}
		}
		return done, err
	})
}

// Unpark makes a parked run due again, with all its attempts: see Orchestrator.Unpark. done says whether a run was
// parked.
func (r *Room) Unpark(ctx context.Context, by string, k store.Key) (done bool, err error) {
	return r.on(ctx, by, Unpark, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		return bot.Unpark(ctx, k.Session)
	})
}

// MakeDue ends the pause of a run that waits to be tried again: see Orchestrator.MakeDue. done says whether such a run
// was waiting.
func (r *Room) MakeDue(ctx context.Context, by string, k store.Key) (done bool, err error) {
	return r.on(ctx, by, MakeDue, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		return bot.MakeDue(ctx, k.Session)
	})
}

// Abandon ends the run with this id without a turn, wherever it is at work, and fences its owner off. If run is "", it
// ends any run. A damaged run is deleted. done says whether such a run was in flight: of a run that settles at the same
// time, either the turn is settled, or the run has ended.
func (r *Room) Abandon(ctx context.Context, by string, k store.Key, run string) (done bool, err error) {
	return r.on(ctx, by, Abandon, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		if r.stores.Snapshots == nil {
			return false, fmt.Errorf("%w: Snapshots", ErrNoStore)
		}
		return bot.Abandon(ctx, k.Session, run)
	})
}

// Delete removes a session: its turns, its run, what it shows, what lies in its inbox, and what was said in it. Its
// owner is fenced off. It does not know the sessions that a tool of an agent has opened: each is a session of its own.
// After an error, call it again.
func (r *Room) Delete(ctx context.Context, by string, k store.Key) (done bool, err error) {
	return r.on(ctx, by, Delete, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		if err := bot.Delete(ctx, k.Session); err != nil {
			return false, err
		}
		if r.stores.Transcripts != nil {
			if _, err := r.stores.Transcripts.Trim(ctx, k, nil, time.Time{}); err != nil {
				return false, err
			}
		}
		if r.stores.Inbox != nil {
			return true, r.stores.Inbox.Remove(ctx, k, "")
		}
		return true, nil
	})
}

// Stop leaves the wish that a run end its turn as interrupted. Agents look for it once a second; other bots do not. If
// run is "", it is the one in flight. done says whether this run was in flight.
func (r *Room) Stop(ctx context.Context, by string, k store.Key, run, reason string) (done bool, err error) {
	return r.on(ctx, by, Stop, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		if r.stores.Inbox == nil {
			return false, fmt.Errorf("%w: Inbox", ErrNoStore)
		}
		st, err := bot.Inspect(ctx, k.Session)
		if err != nil || st.Run == nil || run != "" && run != st.Run.ID {
			return false, err
		}
		why, err := json.Marshal(reason)
		if err != nil {
			return false, err
		}
		// By is that of an agent's Stop, so that a second wish is no error.
		_, err = r.stores.Inbox.Post(ctx, inbox.Item{Key: k, Kind: inbox.Stop, ID: st.Run.ID, By: "stop", Data: why})
		return err == nil, err
	})
}

// SkipDelivery gives up the oldest reply that a session owes. If run is not "", it does so only if that reply is of
// this run. done says whether a reply was owed.
func (r *Room) SkipDelivery(ctx context.Context, by string, k store.Key, run string) (done bool, err error) {
	return r.on(ctx, by, SkipDelivery, k, func(bot *orchestrator.Orchestrator[state]) (bool, error) {
		if run == "" {
			st, err := bot.Inspect(ctx, k.Session)
			if err != nil || st.Owed == 0 {
				return false, err
			}
			owed, err := bot.Turn(ctx, k.Session, st.Turn-st.Owed+1)
			if err != nil {
				return false, err
			}
			run = owed.RunID
		}
		return bot.SkipDelivery(ctx, k.Session, run)
	})
}

// AnswerEffect answers for an effect whose outcome is not known. See ledger.Resolve: of several answers one is taken,
// and the others are ledger.ErrAnswered. An effect that a process may be at work on is lock.ErrHeld, unless a.Sure is
// set. The row has the actor.
func (r *Room) AnswerEffect(ctx context.Context, by, id string, a ledger.Answer) (done bool, err error) {
	return r.act(ctx, by, AnswerEffect, []any{"effect", id}, func() (bool, error) {
		if r.stores.Ledger == nil {
			return false, fmt.Errorf("%w: Ledger", ErrNoStore)
		}
		a.By = by
		err := ledger.Resolve(ctx, r.stores.Ledger, id, a)
		if errors.Is(err, ledger.ErrNotFound) {
			err = fmt.Errorf("%w: no effect %q", ErrNotFound, id)
		}
		return err == nil, err
	})
}

// AnswerQuestion leaves an answer to what a session asks. It takes the rules of package approval: the first answer
// counts, and a.Sum is that of what was shown. A process that has the bot runs the answer: see approval.Desk.Run. The
// errors are those of package approval.
func (r *Room) AnswerQuestion(ctx context.Context, by string, k store.Key, id string, a approval.Answer) error {
	_, err := r.on(ctx, by, "answer question", k, func(*orchestrator.Orchestrator[state]) (bool, error) {
		desk, err := r.desk(k.Orchestrator)
		if err != nil {
			return false, err
		}
		a.By = by
		_, err = desk.Post(ctx, k.Session, id, a)
		return err == nil, err
	})
	return err
}
