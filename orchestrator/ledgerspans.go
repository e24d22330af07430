package orchestrator

import (
	"context"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// spannedLedger makes a span of each call to a ledger.
type spannedLedger struct {
	ledger ledger.Ledger
	silent *silence
}

// Adopt implements [ledger.Ledger].
func (s *spannedLedger) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	ctx, span := s.silent.traceCall(ctx, "ledger.Adopt", "", runID)
	err := s.ledger.Adopt(ctx, runID, f)
	endCall(span, err)
	return err
}

// Issue implements [ledger.Ledger].
func (s *spannedLedger) Issue(
	ctx context.Context, e ledger.Effect, again bool,
) (now ledger.Effect, issued bool, err error) {
	ctx, span := s.silent.traceCall(ctx, "ledger.Issue", e.Session, e.RunID)
	now, issued, err = s.ledger.Issue(ctx, e, again)
	endCall(span, err)
	return now, issued, err
}

// Finish implements [ledger.Ledger].
func (s *spannedLedger) Finish(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	ctx, span := s.silent.traceCall(ctx, "ledger.Finish", "", "")
	now, err = s.ledger.Finish(ctx, id, attempt, o)
	endCall(span, err)
	return now, err
}

// Record implements [ledger.Ledger].
func (s *spannedLedger) Record(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	ctx, span := s.silent.traceCall(ctx, "ledger.Record", e.Session, e.RunID)
	now, err = s.ledger.Record(ctx, e)
	endCall(span, err)
	return now, err
}

// Effects implements [ledger.Ledger].
func (s *spannedLedger) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	if !s.silent.Traced() || background(ctx) {
		return s.ledger.Effects(ctx, q)
	}
	return traceListing(ctx, s.silent, "ledger.Effects", q.Session,
		func(ctx context.Context) iter.Seq2[ledger.Effect, error] { return s.ledger.Effects(ctx, q) })
}

// Prune implements [ledger.Ledger].
func (s *spannedLedger) Prune(ctx context.Context, before time.Time) (int, error) {
	return s.ledger.Prune(ctx, before)
}
