package pgledger

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/ledger"
)

// Record implements [ledger.Ledger].
func (l *Ledger) Record(ctx context.Context, e ledger.Effect) (now ledger.Effect, err error) {
	if err := e.ValidateRecord(); err != nil {
		return ledger.Effect{}, err
	}
	at, err := pgstate.One(ctx, l.db, scanTime, l.sql.record, asked(e, document(e.Result), e.Redacted)...)
	if err == nil {
		now = added(e, at)
		now.State, now.Result, now.FinishedAt = ledger.Completed, slices.Clone(e.Result), now.IssuedAt
		now.Redacted = e.Redacted
		return now, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return ledger.Effect{}, l.error(ctx, "record", e.ID, err)
	}
	r, err := l.owned(ctx, e, l.sql.recordKnown, l.sql.recordKnownBrief, document(e.Result), e.Redacted)
	if err == nil {
		err = r.finished(ledger.Outcome{Result: e.Result})
	}
	return r.Effect, l.error(ctx, "record", e.ID, err)
}
