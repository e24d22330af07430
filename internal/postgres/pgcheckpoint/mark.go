package pgcheckpoint

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// Mark raises counters, counts a failed delivery, or releases, in one statement.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if err := errors.Join(l.Validate(), m.Validate()); err != nil {
		return err
	}
	args := []any{
		l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce,
		m.Summarized, m.Delivered, m.Release, (m.Retry + time.Microsecond - 1).Microseconds(),
	}
	var marked bool
	var touched int64
	var err error
	if s.calls != nil {
		marked, err = pgstate.One(ctx, s.db, pgx.RowTo[bool], s.calls.mark, args...)
	} else {
		touched, err = s.db.Touch(ctx, s.sql.mark, args...)
	}
	if err == nil && !marked && touched == 0 && m != (checkpoint.Marks{Release: true}) {
		err = lock.ErrFenced
	}
	return s.error(ctx, "mark", l.Key, err)
}
