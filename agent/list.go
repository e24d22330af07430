package agent

import (
	"context"
	"errors"
	"iter"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
)

// Messages yields what was said in the session, oldest first, also what a summary stands for.
func (a *Agent[C]) Messages(ctx context.Context, session string) iter.Seq2[message.Message, error] {
	return func(yield func(message.Message, error) bool) {
		r, err := a.newest(ctx, session)
		if err != nil {
			yield(message.Message{}, err)
			return
		}
		for m, err := range a.stores.Transcript.Read(ctx, a.key(session), r.State.named()) {
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

// Waiting yields the sessions that wait for answers, by name, from after on. Its cost grows with these sessions. A
// session that an earlier version has written is found after its next turn.
func (a *Agent[C]) Waiting(ctx context.Context, after string) iter.Seq2[*Outcome[C], error] {
	return func(yield func(*Outcome[C], error) bool) {
		q := checkpoint.SessionQuery{Label: LabelWaiting, After: after}
		for session, err := range a.bot.Sessions(ctx, q) {
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
			case r.State.waits() && !yield(outcome(r), nil):
				return
			}
		}
	}
}
