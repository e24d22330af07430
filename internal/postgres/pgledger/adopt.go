package pgledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// readCommitted is the level at which each statement sees what was committed before it began.
const readCommitted = "read committed"

// Adopt implements [ledger.Ledger].
func (l *Ledger) Adopt(ctx context.Context, runID string, f lock.Fence) error {
	if err := ledger.ValidateAdopt(runID, f); err != nil {
		return err
	}
	return l.error(ctx, "adopt run", runID, l.adopt(ctx, runID, f))
}

// adopt makes f the run's fence. If f is too low, adopt returns lock.ErrFenced.
//
// The second statement has to see the effect of an Issue for which the first one has waited. At a stricter level it
// does not, and there is no error either. So adopt asks for the level, and repeats the adoption at the right one.
func (l *Ledger) adopt(ctx context.Context, runID string, f lock.Fence) error {
	var level string
	send := func(b *pgx.Batch) {
		b.Queue(l.sql.adopt, runID, f.Epoch, f.Nonce).QueryRow(func(row pgx.Row) error { return row.Scan(&level, nil) })
		b.Queue(l.sql.unknown, runID, f.Epoch, f.Nonce)
	}
	err := l.db.Pipe(ctx, send)
	if err == nil && level != readCommitted {
		l.db.Frame()
		err = l.db.Pipe(ctx, send)
	}
	return fenced(err)
}

// fenced returns lock.ErrFenced instead of pgx.ErrNoRows.
func fenced(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return lock.ErrFenced
	}
	return err
}
