package sqliteledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/ledger"
)

const (
	// A slice is the next ?2 rows after a place: how many there are, the last of them, and how many are to be
	// forgotten.
	sliceSQL = `
		SELECT count(*), max(number), coalesce(sum(old), 0)
		FROM (SELECT number, ` + over + ` AS old FROM {prefix}effects NOT INDEXED
			WHERE number > ?1 ORDER BY number LIMIT ?2)`

	forgetSQL = `
		DELETE FROM {prefix}effects NOT INDEXED
		WHERE number > ?1 AND number <= ?2 AND ` + over

	over = `key = '' AND (state = 'completed' OR state = 'failed' OR state = 'skipped')
			AND coalesce(finished_at < ?3, 0)`

	fenceSliceSQL = `
		SELECT count(*), max(run_id), coalesce(sum(old), 0)
		FROM (SELECT run_id, ` + idle + ` AS old FROM {prefix}effect_fences
			WHERE run_id > ?1 ORDER BY run_id LIMIT ?2)`

	forgetFencesSQL = `
		DELETE FROM {prefix}effect_fences
		WHERE run_id > ?1 AND run_id <= ?2 AND ` + idle

	idle = `since < ?3
			AND NOT EXISTS (SELECT 1 FROM {prefix}effects e WHERE e.run_id = {prefix}effect_fences.run_id)`
)

// pruneSlice is how many rows a step of Prune looks at. Meanwhile all writers wait, if there is something to forget.
const pruneSlice = 200

// Prune walks through the effects, and then through the fences. It forgets at most 200 in one statement, and lets other
// writers go first in between.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	st, err := l.db.Start(ctx)
	if err == nil {
		forgotten, err = sweep(ctx, l, st, sweeping{sliceSQL, forgetSQL, before.UnixMicro()}, int64(0))
	}
	if err == nil {
		_, err = sweep(ctx, l, st, sweeping{fenceSliceSQL, forgetFencesSQL, before.UnixMicro()}, "")
	}
	if err != nil {
		return forgotten, fmt.Errorf("sqliteledger: prune: %w", l.db.Explain(ctx, err))
	}
	return forgotten, nil
}

// A sweeping has the two statements of a walk through a table.
type sweeping struct {
	slice, forget string
	before        int64
}

// sweep walks through a table, and returns how many rows it has deleted.
func sweep[P any](
	ctx context.Context, l *Ledger, st sqlitestore.Statements, s sweeping, after P,
) (forgotten int, err error) {
	for {
		rows, err := st[s.slice].QueryContext(ctx, after, pruneSlice, s.before)
		found, err := sqlitestore.Collect(rows, err, scanSlice[P])
		if err != nil {
			return forgotten, err
		}
		if found[0].old > 0 {
			n, err := l.forget(ctx, st[s.forget], after, found[0].last.V, s.before)
			if forgotten += n; err != nil {
				return forgotten, err
			}
		}
		if found[0].rows < pruneSlice {
			return forgotten, nil
		}
		after = found[0].last.V
	}
}

// forget deletes the rows between two places that are still to be forgotten.
func (l *Ledger) forget(ctx context.Context, stmt *sql.Stmt, args ...any) (int, error) {
	leave, err := l.db.Enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := sqlitestore.Affected(stmt.ExecContext(ctx, args...))
	if err == nil && n > 0 {
		err = l.db.There()
	}
	return int(n), err
}

// A slice is the part of a table that a walk sees at once.
type slice[P any] struct {
	rows, old int
	last      sql.Null[P]
}

func scanSlice[P any](rows *sql.Rows) (s slice[P], err error) {
	if err := rows.Scan(&s.rows, &s.last, &s.old); err != nil {
		return s, fmt.Errorf("%w: %w", ledger.ErrDamaged, err)
	}
	return s, nil
}
