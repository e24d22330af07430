package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	// sliceSQL finds the last of the next ?2 rows.
	sliceSQL = `
		SELECT rowid FROM {prefix}runs
		WHERE rowid > ?1
		ORDER BY rowid
		LIMIT 1 OFFSET ?2 - 1`

	oldSQL = `
		SELECT rowid FROM {prefix}runs
		WHERE rowid > ?1 AND rowid <= ?2 AND deleted_at < ?3
		ORDER BY rowid
		LIMIT ?4`

	forgetSQL = `
		DELETE FROM {prefix}runs
		WHERE rowid = ?1 AND deleted_at < ?2`
)

// sweepBatch is how many sessions one transaction forgets. Meanwhile all writers wait.
const sweepBatch = 100

// Sweep looks for sessions without a lock, and forgets them in transactions of 100. With a limit it looks at a part of
// the sessions, and continues there the next time.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	st, err := s.db.Start(ctx)
	if err == nil {
		before := time.Now().Add(-s.remember).UnixMicro()
		forgotten, err = s.sweep.Sweep(limit, func(after int64, rows, most int) (sqlitestore.Slice[int64], error) {
			return s.sweepSlice(ctx, st, after, before, rows, most)
		})
	}
	if err != nil {
		return forgotten, fmt.Errorf("sqlitesnapshot: sweep: %w", s.db.Explain(ctx, err))
	}
	return forgotten, nil
}

// sweepSlice looks at the next rows after a place, and forgets at most the number most of them.
func (s *Store) sweepSlice(
	ctx context.Context, st sqlitestore.Statements, after, before int64, rows, most int,
) (got sqlitestore.Slice[int64], err error) {
	found, err := st[sliceSQL].QueryContext(ctx, after, rows)
	last, err := sqlitestore.Collect(found, err, scanRowID)
	switch {
	case err != nil:
		return got, err
	case len(last) > 0:
		got.Rows, got.Last = rows, last[0]
	default:
		got.Last = math.MaxInt64 // after all rows
	}
	found, err = st[oldSQL].QueryContext(ctx, after, got.Last, before, most)
	old, err := sqlitestore.Collect(found, err, scanRowID)
	for batch := range slices.Chunk(old, sweepBatch) {
		var n int
		if err == nil {
			n, err = s.forget(ctx, st, batch, before)
			got.Removed += n
		}
	}
	return got, err
}

// forget deletes the rows that are still old, and returns how many it deleted.
func (s *Store) forget(ctx context.Context, st sqlitestore.Statements, old []int64, before int64) (int, error) {
	forgotten := 0
	err := s.db.Write(ctx, func(tx *sql.Tx) error {
		stmt := tx.StmtContext(ctx, st[forgetSQL])
		for _, id := range old {
			n, err := sqlitestore.Affected(stmt.ExecContext(ctx, id, before))
			if err != nil {
				return err
			}
			forgotten += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

func scanRowID(rows *sql.Rows) (id int64, err error) {
	err = rows.Scan(&id)
	return id, err
}
