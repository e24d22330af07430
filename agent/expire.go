package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// LabelUntil is the label of a session that waits for an answer until a time. It is due at the earliest one.
const LabelUntil = "until"

// OutOfTime is Answer.By of an answer that nobody has given in time.
const OutOfTime = "out of time"

// nobodyInTime is what the model is told then.
const nobodyInTime = "nobody has answered in time"

// parentFirst is how much later a child finds out for itself that nobody has answered: by then its root has told it.
const parentFirst = time.Minute

// until returns when the first answer comes too late that the session waits for. The zero Time is never.
func (s *State[C]) until() (first time.Time) {
	if !s.waits() {
		return first
	}
	for _, p := range s.missing() {
		if until := s.untilOf(p); !until.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

func (s *State[C]) untilOf(p Pending) time.Time {
	if s.Parent == "" || p.Until.IsZero() {
		return p.Until
	}
	return p.Until.Add(parentFirst)
}

// due returns a call whose answer has not come in time, or nil.
func (s *State[C]) due(now time.Time) *Pending {
	for _, p := range s.missing() {
		if until := s.untilOf(p); !until.IsZero() && !until.After(now) {
			return &p
		}
	}
	return nil
}

// instead returns the answer that counts if nobody gives one.
func (p *Pending) instead() Answer {
	ans := Answer{Kind: p.Kind, By: OutOfTime}
	switch {
	case p.Kind == Approval:
		ans.Note = nobodyInTime
	case p.Otherwise != "":
		ans.Result = p.Otherwise
	default:
		ans.Result, ans.Failed = nobodyInTime, true
	}
	return ans
}

// Expire answers the calls whose Until is over, and deletes the sessions whose Labels.Expires is over, with all that
// Delete removes. A session with a run in flight is left for the next time. Expire returns how many sessions it has
// dealt with: limit at most, 0 is all. An error of one session does not keep Expire from the others.
//
// Sweep of Bot calls Expire, and serve.Run does, so a program that serves the agent with it need not. What is due is
// found by labels: other sessions cost nothing.
func (a *Agent[C]) Expire(ctx context.Context, limit int) (done int, err error) {
	var errs []error
	for _, what := range []struct {
		label string
		do    func(context.Context, string) (bool, error)
	}{{LabelExpires, a.end}, {LabelUntil, a.outOfTime}} {
		var due []string
		flush := func() {
			n, err := a.each(ctx, due, what.do)
			done, due, errs = done+n, nil, append(errs, err)
		}
		for session, err := range a.bot.Sessions(ctx, checkpoint.SessionQuery{Label: what.label, By: time.Now()}) {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			if limit > 0 && done >= limit || ctx.Err() != nil {
				break
			}
			due = append(due, session)
			if len(due) == a.fan || limit > 0 && done+len(due) == limit {
				flush()
			}
		}
		flush()
	}
	return done, errors.Join(errs...)
}

// each deals with sessions at once, and returns how many it has dealt with.
func (a *Agent[C]) each(
	ctx context.Context, sessions []string, one func(context.Context, string) (bool, error),
) (n int, err error) {
	var mu sync.Mutex // protects n and err
	var group sync.WaitGroup
	for _, session := range sessions {
		group.Go(func() {
			done, failed := one(ctx, session)
			mu.Lock()
			defer mu.Unlock()
			if done {
				n++
			}
			if failed != nil {
				err = errors.Join(err, fmt.Errorf("agent: expire %q: %w", session, failed))
			}
		})
	}
	group.Wait()
	return n, err
}

// idle returns the newest state of a session without a run in flight, or nil.
func (a *Agent[C]) idle(ctx context.Context, session string) (*orchestrator.Result[State[C]], error) {
	st, err := a.bot.Inspect(ctx, session)
	if err != nil || st.Run != nil {
		return nil, err
	}
	r, err := a.newest(ctx, session)
	if errors.Is(err, ErrUnknown) { // deleted meanwhile
		return nil, nil
	}
	return r, err
}

// outOfTime answers what nobody has answered in time.
func (a *Agent[C]) outOfTime(ctx context.Context, session string) (done bool, err error) {
	for {
		r, err := a.idle(ctx, session)
		if err != nil || r == nil {
			return done, err
		}
		p := r.State.due(time.Now())
		if p == nil {
			return done, nil
		}
		if _, err := a.Answer(ctx, session, p.Call.ID, p.instead()); err != nil {
			return done, another(err)
		}
		done = true
	}
}

// another returns nil if err says that somebody else was first, or is at work.
func another(err error) error {
	for _, first := range []error{ErrAnswered, ErrNoCall, ErrStale, ErrUnknown, orchestrator.ErrBusy} {
		if errors.Is(err, first) {
			return nil
		}
	}
	return err
}

// end deletes a session that is over. First a turn makes sure that no other one comes.
func (a *Agent[C]) end(ctx context.Context, session string) (done bool, err error) {
	r, err := a.idle(ctx, session)
	if err != nil || r == nil || r.State.Expires.IsZero() || r.State.Expires.After(time.Now()) {
		return false, err
	}
	if !r.State.Over {
		if busy, err := a.atWork(ctx, session); err != nil || busy {
			return false, err
		}
		if _, err := a.run(ctx, session, envelope{Op: opEnd, At: r.Turn + 1}.input("", ""), nil); err != nil {
			return false, another(err)
		}
	}
	// Its label goes with its turns, so these are the last: after a crash before that, the next Expire finds it.
	if err := a.deleteRest(ctx, session); err != nil {
		return false, err
	}
	if err := a.Delete(ctx, session); err != nil {
		return false, err
	}
	return true, nil
}

// atWork reports whether a run of a session or of one of its children is in flight.
func (a *Agent[C]) atWork(ctx context.Context, session string) (bool, error) {
	st, err := a.bot.Inspect(ctx, session)
	if err != nil || st.Run != nil {
		return err == nil, err
	}
	r, err := a.newest(ctx, session)
	switch {
	case errors.Is(err, ErrUnknown):
		return false, nil
	case err != nil:
		return false, err
	}
	for child, name := range r.State.Children {
		if tool := a.tools[name]; tool != nil && tool.Child != nil {
			if busy, err := tool.Child.atWork(ctx, child); err != nil || busy {
				return busy, err
			}
		}
	}
	return false, nil
}

// bound returns the calls that a child waits for, as long as the tool lets it.
func (t *Tool) bound(waits []Pending) []Pending {
	if t.Until == 0 {
		return waits
	}
	waits = slices.Clone(waits)
	for i := range waits {
		p := &waits[i]
		if until := p.Since.Add(t.Until); p.Until.IsZero() || until.Before(p.Until) {
			p.Until = until
		}
	}
	return waits
}
