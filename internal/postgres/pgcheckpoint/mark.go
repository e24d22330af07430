package pgcheckpoint

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
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
	var err error
	if s.calls != nil {
		marked, err = call[bool](ctx, s.db, s.calls.mark, args...)
	} else {
		marked, err = s.exec(ctx, s.sql.mark, args...)
	}
	if err == nil && !marked && m != (checkpoint.Marks{Release: true}) {
		err = lock.ErrFenced
	}
	return s.error(ctx, "mark", l.Key, err)
}
