package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/store"
)

// A Question is what a session asks a person.
type Question struct {
	store.Key
	approval.Asked
}

// Questions yields what the sessions of a bot ask, from the session after one on, by session in byte order. If bot is
// "", it yields those of all bots. It costs by the sessions that ask, and reads one turn of each. A bot that stores no
// questions as Options.Desk reads them has none. A session that cannot be read comes with its error, and Questions goes
// on if it is damaged.
func (r *Room) Questions(ctx context.Context, bot, after string) iter.Seq2[Question, error] {
	return func(yield func(Question, error) bool) {
		names, err := r.named(ctx, bot)
		if err != nil {
			yield(Question{}, err)
			return
		}
		for _, name := range names {
			q := checkpoint.SessionQuery{Orchestrator: name, Label: r.o.Waiting, After: after}
			if !r.questions(ctx, q, yield) {
				return
			}
		}
	}
}

func (r *Room) questions(ctx context.Context, q checkpoint.SessionQuery, yield func(Question, error) bool) bool {
	desk, err := r.desk(q.Orchestrator)
	if err != nil {
		return yield(Question{}, err) && false
	}
	for session, err := range r.stores.Checkpoints.Sessions(ctx, q) {
		k := store.Key{Orchestrator: q.Orchestrator, Session: session}
		var all []approval.Asked
		if err == nil {
			all, err = desk.Asked(ctx, session)
		}
		if err != nil {
			if !yield(Question{Key: k}, err) || !damaged(err) && !away(err) {
				return false
			}
			continue
		}
		for _, asked := range all {
			if !yield(Question{k, asked}, nil) {
				return false
			}
		}
	}
	return true
}

// Asked returns what one session asks.
func (r *Room) Asked(ctx context.Context, k store.Key) ([]approval.Asked, error) {
	desk, err := r.desk(k.Orchestrator)
	if err != nil {
		return nil, err
	}
	return desk.Asked(ctx, k.Session)
}

func (r *Room) desk(name string) (*approval.Desk[state], error) {
	if r.o.Desk == nil || r.stores.Inbox == nil {
		return nil, fmt.Errorf("%w: questions need Options.Desk and an Inbox", ErrNoStore)
	}
	bot, err := r.Bot(name)
	if err != nil {
		return nil, err
	}
	return r.o.Desk(bot, r.stores.Inbox), nil
}

// waitingInputs counts the inputs that wait in a session.
func (r *Room) waitingInputs(ctx context.Context, k store.Key) (n int, err error) {
	for _, err := range r.stores.Inbox.Items(ctx, k, inbox.Input) {
		if err != nil && !errors.Is(err, store.ErrDamaged) {
			return n, err
		}
		n++
	}
	return n, nil
}
