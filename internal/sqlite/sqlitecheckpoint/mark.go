package sqlitecheckpoint

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	markSQL = `
		UPDATE {prefix}sessions SET
			summarized = max(summarized, min(?5, turn + 1)),
			owed = CASE WHEN ?6 > turn THEN NULL WHEN ?6 > owed THEN ?6 ELSE owed END,
			lease_until = CASE WHEN ?7 AND nonce <> '' THEN ?8 ELSE max(lease_until, ?8) END,
			nonce = CASE WHEN ?7 THEN '' ELSE nonce END,
			failed = CASE WHEN ` + nothingOwed + ` THEN 0 ELSE iif(?6 > owed, 0, failed) + (?9 > 0) END,
			retry_at = CASE WHEN ` + nothingOwed + ` THEN 0 WHEN ?9 > 0 THEN ?9 WHEN ?6 > owed THEN 0 ELSE retry_at END
		WHERE orchestrator = ?1 AND session = ?2 AND epoch = ?3 AND (nonce = ?4 OR nonce = '')`

	// nothingOwed says that a mark leaves nothing to deliver, or that nothing was owed.
	nothingOwed = `(owed IS NULL OR ?6 > turn)`
)

// Mark raises counters, counts a failed delivery, or releases, in one statement.
func (s *Store) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if err := s.mark(ctx, l, m); err != nil {
		return fmt.Errorf("sqlitecheckpoint: mark %q: %w", l.Session, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	st, err := s.db.Start(ctx, l.Validate(), m.Validate())
	if err != nil {
		return err
	}
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	now := time.Now()
	var retryAt int64 // 0: no delivery has failed
	if m.Retry > 0 {
		retryAt = now.Add(m.Retry).UnixMicro()
	}
	n, err := sqlitestore.Affected(st[markSQL].ExecContext(ctx, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce,
		m.Summarized, m.Delivered, m.Release, now.UnixMicro(), retryAt))
	if err != nil {
		return err
	}
	if n == 0 && m != (checkpoint.Marks{Release: true}) {
		return lock.ErrFenced
	}
	return s.db.There() // an error if the file is gone, and the write with it
}
