package enginetest

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

type (
	ledgerWithoutAdopt  struct{ ledger.Ledger }
	ledgerThatHurries   struct{ ledger.Ledger }
	ledgerWithoutRepeat struct{ ledger.Ledger }
	ledgerWithoutFinish struct{ ledger.Ledger }
	ledgerThatFences    struct{ ledger.Ledger }
	ledgerWithoutIDs    struct{ ledger.Ledger }
)

func (ledgerWithoutAdopt) Adopt(context.Context, string, lock.Fence) error { return nil }

// known returns an effect that the ledger has.
func known(ctx context.Context, l ledger.Ledger, id string) (e ledger.Effect, ok bool) {
	for e, err := range l.Effects(ctx, ledger.Query{ID: id}) {
		return e, err == nil
	}
	return e, false
}

func (l ledgerThatHurries) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := known(ctx, l, e.ID); ok && now.State == ledger.Unknown {
		e.Attempts, again = now.Attempts, true
	}
	return l.Ledger.Issue(ctx, e, again)
}

func (l ledgerWithoutRepeat) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if now, ok := known(ctx, l, e.ID); ok && now.State == ledger.Issued {
		return now, false, nil
	}
	return l.Ledger.Issue(ctx, e, again)
}

func (l ledgerWithoutFinish) Finish(ctx context.Context, id string, _ int, o ledger.Outcome) (ledger.Effect, error) {
	e, _ := known(ctx, l, id)
	e.State, e.Result = o.State, o.Result
	return e, nil
}

func (l ledgerWithoutIDs) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if q.ID != "" {
		return func(func(ledger.Effect, error) bool) {}
	}
	return l.Ledger.Effects(ctx, q)
}

func (l ledgerThatFences) Finish(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (ledger.Effect, error) {
	if e, ok := known(ctx, l, id); ok && e.State == o.State {
		return e, lock.ErrFenced
	}
	return l.Ledger.Finish(ctx, id, attempt, o)
}
