package orchestratortest

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// effects is a ledger as a process sees it.
type effects struct {
	ledger ledger.Ledger
	life   *life
}

// Adopt implements [ledger.Ledger].
func (s *effects) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	return s.life.do(ctx, "ledger.Adopt", func(ctx context.Context) error { return s.ledger.Adopt(ctx, runID, f) })
}

// Issue implements [ledger.Ledger].
func (s *effects) Issue(
	ctx context.Context, e ledger.Effect, again bool,
) (now ledger.Effect, issued bool, err error) {
	err = s.life.do(ctx, "ledger.Issue", func(ctx context.Context) (err error) {
		now, issued, err = s.ledger.Issue(ctx, e, again)
		return err
	})
	return now, issued, err
}

// Finish implements [ledger.Ledger].
func (s *effects) Finish(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	return ask(ctx, s.life, "ledger.Finish",
		func(ctx context.Context) (ledger.Effect, error) { return s.ledger.Finish(ctx, id, attempt, o) })
}

// Record implements [ledger.Ledger].
func (s *effects) Record(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	return ask(ctx, s.life, "ledger.Record",
		func(ctx context.Context) (ledger.Effect, error) { return s.ledger.Record(ctx, e) })
}

// Effects implements [ledger.Ledger].
func (s *effects) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return listed(ctx, s.life, "ledger.Effects",
		func(ctx context.Context) iter.Seq2[ledger.Effect, error] { return s.ledger.Effects(ctx, q) })
}

// Prune implements [ledger.Ledger].
func (s *effects) Prune(ctx context.Context, before time.Time) (int, error) {
	return s.ledger.Prune(ctx, before)
}
