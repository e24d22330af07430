package pgledger

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/ledger"
)

// Finish implements [ledger.Ledger].
func (l *Ledger) Finish(
	ctx context.Context, id string, attempt int, o ledger.Outcome,
) (now ledger.Effect, err error) {
	if err := ledger.ValidateFinish(id, attempt, o); err != nil {
		return ledger.Effect{}, err
	}
	for range tries {
		r, err := l.write(ctx, l.sql.finish, l.sql.finishBrief, outcome(id, attempt, o)...)
		if errors.Is(err, pgx.ErrNoRows) {
			r, err = l.write(ctx, l.sql.found, l.sql.foundBrief, id)
		}
		if errors.Is(err, pgx.ErrNoRows) {
			err = ledger.ErrNotFound
		}
		if err == nil {
			err = r.finished(o)
		}
		switch {
		case err != nil:
			return r.Effect, l.error(ctx, "finish", id, err)
		case r.written:
			return r.Effect, nil
		}
		if state, err := r.Takes(attempt, o); state == "" {
			return r.Effect, err
		} // else the effect has changed since
	}
	return ledger.Effect{}, l.error(ctx, "finish", id, errors.New("the effect changes all the time"))
}

// tries bounds how often a statement is repeated because another one came between.
const tries = 100

// outcome returns the arguments of the statement finish.
func outcome(id string, attempt int, o ledger.Outcome) []any {
	return []any{id, attempt, string(o.State), document(o.Result), o.Error, o.By, o.Sure, o.Redacted}
}

// finished restores what a row that was written leaves out, and says whether the row is damaged.
func (r *row) finished(o ledger.Outcome) error {
	if r.written {
		r.Result = slices.Clone(o.Result)
	}
	return r.intact()
}
