package pgcheckpoint

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// headSQL looks for turns only if there is no head. The second row then says that turns are kept without a head. One
// statement sees one state of both tables.
const headSQL = `
	SELECT true, epoch, born, turn, first, summarized, coalesce(owed, turn + 1), failed, owner,
		CASE
			WHEN NOT isfinite(lease_until) THEN NULL
			WHEN nonce = '' THEN 0
			ELSE (extract(epoch FROM lease_until - clock_timestamp()) * 1e6)::bigint
		END
	FROM {sessions}
	WHERE orchestrator = $1 AND session = $2
	UNION ALL (
		SELECT false, 0, 0, 0, 0, 0, 0, 0, '', 0
		FROM {turns}
		WHERE orchestrator = $1 AND session = $2
			AND NOT EXISTS (SELECT FROM {sessions} WHERE orchestrator = $1 AND session = $2)
		LIMIT 1
	)`

// Head is one statement, which reads one row.
func (s *Store) Head(ctx context.Context, k checkpoint.Key) (checkpoint.Head, error) {
	if err := k.Validate(); err != nil {
		return checkpoint.Head{}, err
	}
	found, err := pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (headRow, error) { return scanStanding(row, k) },
		s.sql.head, k.Orchestrator, k.Session)
	var h checkpoint.Head
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = checkpoint.ErrNotFound
	case err == nil:
		h, err = found.judge()
	}
	return h, s.error(ctx, "head", k, err)
}

var errEndlessLease = errors.New("head: its lease ends at an infinite time")

// A headRow is the head of a session as it was read.
type headRow struct {
	checkpoint.Claimed
	there       bool // false if turns are kept without a head
	turn, first int
	owner       string
	left        *int64 // of the lease, in µs; not above 0 if no lease is live, nil if it ends at an infinite time
}

func scanStanding(row pgx.CollectableRow, k checkpoint.Key) (r headRow, err error) {
	r.Key = k
	return r, row.Scan(&r.there, &r.Fence.Epoch, &r.Born, &r.turn, &r.first, &r.Summarized, &r.Delivered, &r.Failed,
		&r.owner, &r.left)
}

// judge returns a *checkpoint.DamagedError if no store wrote the head.
func (r *headRow) judge() (checkpoint.Head, error) {
	if !r.there {
		return checkpoint.Head{}, checkpoint.Damaged(r.Key, checkpoint.ErrNoHead)
	}
	if r.left == nil {
		return checkpoint.Head{}, checkpoint.Damaged(r.Key, errEndlessLease)
	}
	h, err := checkpoint.HeadOf(r.Claimed, r.turn, r.first)
	if err == nil && *r.left > 0 {
		h.Owner, h.LeaseLeft = r.owner, time.Duration(*r.left)*time.Microsecond
	}
	return h, err
}
