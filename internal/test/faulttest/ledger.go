package faulttest

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// Ledger returns l behind an Around.
func Ledger(l ledger.Ledger, around Around) ledger.Ledger { return &effects{l, around} }

type effects struct {
	ledger ledger.Ledger
	around Around
}

// Adopt implements [ledger.Ledger].
func (s *effects) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	return s.around(ctx, Call{Method: "AdoptEffects", Run: runID, Fence: f},
		func(ctx context.Context) error { return s.ledger.Adopt(ctx, runID, f) })
}

// Issue implements [ledger.Ledger].
func (s *effects) Issue(
	ctx context.Context, e ledger.Effect, again bool,
) (now ledger.Effect, issued bool, err error) {
	err = s.around(ctx, Call{Method: "Issue", Session: e.Session, Run: e.RunID, Fence: e.Fence},
		func(ctx context.Context) (err error) {
			now, issued, err = s.ledger.Issue(ctx, e, again)
			return err
		})
	return now, issued, err
}

// Finish implements [ledger.Ledger].
func (s *effects) Finish(ctx context.Context, id string, attempt int, o ledger.Outcome) (ledger.Effect, error) {
	return ask(ctx, s.around, Call{Method: "Finish", Effect: id, Outcome: o.State},
		func(ctx context.Context) (ledger.Effect, error) { return s.ledger.Finish(ctx, id, attempt, o) })
}

// Record implements [ledger.Ledger].
func (s *effects) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	return ask(ctx, s.around, Call{Method: "Record", Session: e.Session, Run: e.RunID, Fence: e.Fence},
		func(ctx context.Context) (ledger.Effect, error) { return s.ledger.Record(ctx, e) })
}

// Effects implements [ledger.Ledger].
func (s *effects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return listed(ctx, s.around, Call{Method: "Effects", Session: q.Session, Run: q.RunID},
		func(ctx context.Context) iter.Seq2[ledger.Effect, error] { return s.ledger.Effects(ctx, q) })
}

// Prune implements [ledger.Ledger].
func (s *effects) Prune(ctx context.Context, before time.Time) (int, error) {
	return ask(ctx, s.around, Call{Method: "Prune"},
		func(ctx context.Context) (int, error) { return s.ledger.Prune(ctx, before) })
}
