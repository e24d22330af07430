package agent

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
)

// Messages yields what the session sees, oldest first.
func (a *Agent[C]) Messages(ctx context.Context, session string) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		r, err := a.newest(ctx, session)
		if err != nil {
			yield(message.Message{}, err)
			return
		}
		for m, err := range a.stores.Transcript.Read(ctx, a.key(session), r.State.Said) {
			if !yield(m, err) {
				return
			}
		}
		for _, m := range r.State.Tail {
			if !yield(m, nil) {
				return
			}
		}
	}
}

// A Run is a turn on its way or at its end.
type Run struct {
	ID      string
	Version int
	Status  string    // "active", or the Status or Reason that it settled with
	Started time.Time // of a settled one: when its iterations began, without pauses between them
	Ended   time.Time
}

// Runs yields the runs of a session, newest first: the one in flight, and the kept turns.
func (a *Agent[C]) Runs(ctx context.Context, session string) iter.Seq2[Run, error] {
	return func(yield func(Run, error) bool) {
		st, err := a.bot.Inspect(ctx, session)
		if err != nil {
			yield(Run{}, err)
			return
		}
		if r := st.Run; r != nil {
			run := Run{ID: r.ID, Version: r.Turn + 1, Status: string(Active), Started: r.Started}
			if !yield(run, nil) {
				return
			}
		}
		for r, err := range a.bot.Turns(ctx, session) {
			if err != nil {
				yield(Run{}, err)
				return
			}
			run := Run{ID: r.RunID, Version: r.Turn + 1, Status: string(r.State.Status), Ended: r.SavedAt}
			run.Started = run.Ended
			for _, step := range r.Steps {
				run.Started = run.Started.Add(-step.Took)
			}
			if r.State.Reason != "" && r.State.Status == Paused {
				run.Status = string(r.State.Reason)
			}
			if !yield(run, nil) {
				return
			}
		}
	}
}

// Waiting yields the sessions that wait for answers, by name, from after on.
func (a *Agent[C]) Waiting(ctx context.Context, after string) iter.Seq2[*Outcome[C], error] {
	return func(yield func(*Outcome[C], error) bool) {
		q := checkpoint.SessionQuery{Orchestrator: a.def.Name, After: after}
		for session, err := range a.stores.Checkpoints.Sessions(ctx, q) {
			if err != nil {
				yield(nil, err)
				return
			}
			r, err := a.newest(ctx, session)
			switch {
			case errors.Is(err, ErrUnknown): // deleted meanwhile
			case err != nil:
				if !yield(&Outcome[C]{Session: session}, err) {
					return
				}
			case r.State.Status == Paused && !yield(outcome(r), nil):
				return
			}
		}
	}
}
