package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlitestore"
)

const (
	oldSQL = `
		SELECT rowid FROM {prefix}runs
		WHERE rowid > ?1 AND deleted_at < ?2
		ORDER BY rowid
		LIMIT ?3`

	forgetSQL = `
		DELETE FROM {prefix}runs
		WHERE rowid = ?1 AND deleted_at < ?2`
)

// sweepBatch is how many sessions one transaction forgets, while all who write wait.
const sweepBatch = 100

// Sweep looks for sessions without a lock, and forgets them in transactions of 100. It reads every row.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	st, err := s.db.Start(ctx)
	var after int64
	for before := time.Now().Add(-s.remember).UnixMicro(); err == nil; {
		batch := sweepBatch
		if limit > 0 {
			batch = min(limit-forgotten, sweepBatch)
		}
		var old []int64
		rows, e := st[oldSQL].QueryContext(ctx, after, before, batch)
		if old, err = sqlitestore.Collect(rows, e, scanRowID); err != nil || len(old) == 0 {
			break
		}
		var n int
		n, err = s.forget(ctx, st, old, before)
		forgotten += n
		if limit > 0 && forgotten == limit {
			break
		}
		after = old[len(old)-1]
	}
	if err != nil {
		return forgotten, fmt.Errorf("sqlitesnapshot: sweep: %w", s.db.Explain(ctx, err))
	}
	return forgotten, nil
}

// forget deletes the rows that are still old, and returns how many these were.
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
