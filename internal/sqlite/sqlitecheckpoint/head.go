package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// headSQL looks for turns only if there is no head. The second row then says that turns are kept without a head.
const headSQL = `
		SELECT 1, epoch, born, turn, first, summarized, coalesce(owed, turn + 1), failed, owner,
			CASE WHEN nonce = '' THEN 0 ELSE lease_until END
		FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2
		UNION ALL
		SELECT 0, 0, 0, 0, 0, 0, 0, 0, '', 0
		WHERE EXISTS (SELECT 1 FROM {prefix}turns WHERE orchestrator = ?1 AND session = ?2)
			AND NOT EXISTS (SELECT 1 FROM {prefix}sessions WHERE orchestrator = ?1 AND session = ?2)`

// Head is one statement, which reads one row.
func (s *Store) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	h, err := s.head(ctx, k)
	if err != nil {
		return h, fmt.Errorf("sqlitecheckpoint: head of %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return h, nil
}

func (s *Store) head(ctx context.Context, k checkpoint.Key) (h checkpoint.Head, err error) {
	st, err := s.db.Start(ctx, k.Validate())
	if err != nil {
		return h, err
	}
	rows, err := st[headSQL].QueryContext(ctx, k.Orchestrator, k.Session)
	found, err := sqlitestore.Collect(rows, err, scanStanding)
	switch {
	case err != nil:
		return h, err
	case len(found) == 0:
		return h, checkpoint.ErrNotFound
	}
	return found[0].judge(k, time.Now())
}

// A headRow is the head of a session as it was read.
type headRow struct {
	there       bool // false if turns are kept without a head
	claimed     checkpoint.Claimed
	turn, first int
	owner       string
	leaseUntil  int64 // in µs; 0 once released
	unread      error
}

// scanStanding reads a row. Its error is an error of the database.
func scanStanding(rows *sql.Rows) (r headRow, err error) {
	c := &r.claimed
	r.unread = rows.Scan(&r.there, &c.Fence.Epoch, &c.Born, &r.turn, &r.first, &c.Summarized, &c.Delivered, &c.Failed,
		&r.owner, &r.leaseUntil)
	return r, rows.Err()
}

// judge returns a *checkpoint.DamagedError if no store wrote the head.
func (r *headRow) judge(k checkpoint.Key, now time.Time) (checkpoint.Head, error) {
	switch {
	case r.unread != nil:
		return checkpoint.Head{}, checkpoint.Damaged(k, fmt.Errorf("head: %w", r.unread))
	case !r.there:
		return checkpoint.Head{}, checkpoint.Damaged(k, checkpoint.ErrNoHead)
	}
	r.claimed.Key = k
	h, err := checkpoint.HeadOf(r.claimed, r.turn, r.first)
	if left := r.leaseUntil - now.UnixMicro(); err == nil && left > 0 {
		h.Owner, h.LeaseLeft = r.owner, time.Duration(left)*time.Microsecond
	}
	return h, err
}
