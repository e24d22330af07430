package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	// sliceSQL finds the last of the next ?3 heads.
	sliceSQL = `
		SELECT orchestrator, session FROM {prefix}sessions
		WHERE (orchestrator, session) > (?1, ?2)
		ORDER BY orchestrator, session
		LIMIT 1 OFFSET ?3 - 1`

	idleSQL = `
		SELECT orchestrator, session FROM {prefix}sessions
		WHERE (orchestrator, session) > (?1, ?2) AND (orchestrator, session) <= (?3, ?4)
			AND lease_until < iif(turn < 0, ?7, ?5) AND owed IS NULL
		ORDER BY orchestrator, session
		LIMIT ?6`

	retireSQL = `
		DELETE FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2 AND lease_until < iif(turn < 0, ?4, ?3) AND owed IS NULL`

	// saidSQL deletes what was said in a session that retireSQL is about to delete. The run of a session that has
	// settled nothing is not dropped, and may name it.
	saidSQL = `
		DELETE FROM {prefix}messages
		WHERE orchestrator = ?1 AND session = ?2 AND EXISTS (
			SELECT 1 FROM {prefix}sessions
			WHERE orchestrator = ?1 AND session = ?2 AND turn >= 0 AND lease_until < ?3 AND owed IS NULL
		)`
)

// sweepBatch is how many sessions one transaction retires. All writers wait meanwhile.
const sweepBatch = 100

// Sweep looks for idle sessions without a lock, and retires them in transactions of 100. With a limit it looks at a
// part of the sessions, and goes on there the next time.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	st, err := s.db.Start(ctx)
	if err == nil {
		since := s.idleSince(time.Now())
		retired, err = s.sweep.Sweep(limit, func(
			after checkpoint.Key, rows, most int,
		) (sqlitestore.Slice[checkpoint.Key], error) {
			return s.sweepSlice(ctx, st, after, since, rows, most)
		})
	}
	if err != nil {
		return retired, fmt.Errorf("sqlitecheckpoint: sweep: %w", s.db.Explain(ctx, err))
	}
	return retired, nil
}

// An idleSince holds the latest ends of leases, in µs, for which a session with or without a settled turn is idle.
type idleSince struct{ settled, unsettled int64 }

func (s *Store) idleSince(now time.Time) idleSince {
	since := idleSince{math.MinInt64, now.Add(-s.unsettled).UnixMicro()}
	if s.ttl > 0 {
		since.settled = now.Add(-s.ttl).UnixMicro()
		since.unsettled = max(since.unsettled, since.settled)
	}
	return since
}

// sweepSlice looks at the next heads after a place, and retires most sessions at most.
func (s *Store) sweepSlice(
	ctx context.Context, st sqlitestore.Statements, after checkpoint.Key, since idleSince, rows, most int,
) (got sqlitestore.Slice[checkpoint.Key], err error) {
	found, err := st[sliceSQL].QueryContext(ctx, after.Orchestrator, after.Session, rows)
	last, err := sqlitestore.Collect(found, err, scanKey)
	switch {
	case err != nil:
		return got, err
	case len(last) > 0:
		got.Rows, got.Last = rows, last[0]
	default:
		got.Last = checkpoint.Key{Orchestrator: successor("")} // after all heads
	}
	found, err = st[idleSQL].QueryContext(ctx, after.Orchestrator, after.Session,
		got.Last.Orchestrator, got.Last.Session, since.settled, most, since.unsettled)
	idle, err := sqlitestore.Collect(found, err, scanKey)
	for batch := range slices.Chunk(idle, sweepBatch) {
		var n int
		if err == nil {
			n, err = s.retire(ctx, st, batch, since)
			got.Removed += n
		}
	}
	return got, err
}

// retire deletes the sessions that are still idle, and returns how many it deleted.
func (s *Store) retire(
	ctx context.Context, st sqlitestore.Statements, idle []checkpoint.Key, since idleSince,
) (retired int, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		head := tx.StmtContext(ctx, st[retireSQL])
		rest := []*sql.Stmt{tx.StmtContext(ctx, st[deleteTurnsSQL]), tx.StmtContext(ctx, st[unlabelSQL])}
		for _, k := range idle {
			if s.said {
				_, err := tx.ExecContext(ctx, s.db.SQL(saidSQL), k.Orchestrator, k.Session, since.settled)
				if err != nil {
					return err
				}
			}
			n, err := sqlitestore.Affected(
				head.ExecContext(ctx, k.Orchestrator, k.Session, since.settled, since.unsettled))
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			for _, rows := range rest {
				if _, err := rows.ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
					return err
				}
			}
			retired++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return retired, nil
}

func scanKey(rows *sql.Rows) (k checkpoint.Key, err error) {
	err = rows.Scan(&k.Orchestrator, &k.Session)
	return k, err
}
