package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// Delete removes the head and the turns in one transaction.
func (s *Store) Delete(ctx context.Context, l checkpoint.Lease) error {
	if err := l.Validate(); err != nil {
		return err
	}
	var deleted bool
	var err error
	if s.calls != nil {
		deleted, err = pgstate.One(ctx, s.db, pgx.RowTo[bool], s.calls.delete,
			l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce)
	} else {
		deleted, err = s.sendDelete(ctx, l)
	}
	if err == nil && !deleted {
		err = lock.ErrFenced
	}
	return s.error(ctx, "delete", l.Key, err)
}

// sendDelete reports whether the session is gone.
func (s *Store) sendDelete(ctx context.Context, l checkpoint.Lease) (deleted bool, err error) {
	fenced := false
	err = s.db.Pipe(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.deleteGuard, l.Orchestrator, l.Session)
		b.Queue(s.sql.deleteHead, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce)
		b.Queue(s.sql.deleteTurns, l.Orchestrator, l.Session).
			QueryRow(func(row pgx.Row) error { return row.Scan(&fenced) })
	})
	return !fenced, err
}
