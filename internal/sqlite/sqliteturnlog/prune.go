package sqliteturnlog

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

const (
	// A slice is the next ?2 runs after a run: how many there are, the last of them, and how many are to be forgotten.
	sliceSQL = `
		SELECT count(*), coalesce(max(run), ''), coalesce(sum(old), 0)
		FROM (SELECT run, ` + over + ` AS old FROM {prefix}logged WHERE run > ?1 ORDER BY run LIMIT ?2)`

	forgetPhasesSQL = `
		DELETE FROM {prefix}phases
		WHERE run IN (SELECT run FROM {prefix}logged WHERE run > ?1 AND run <= ?2 AND ` + over + `)`

	forgetSQL = `
		DELETE FROM {prefix}logged
		WHERE run > ?1 AND run <= ?2 AND ` + over

	over = `open = 0 AND coalesce(settled < ?3, 0)`
)

// pruneSlice is how many runs a step of Prune looks at. Meanwhile all writers wait, if there is something to forget.
const pruneSlice = 100

// Prune walks through the runs. It forgets at most 100 in one transaction, and lets other writers go first in between.
func (l *Log) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	st, err := l.db.Start(ctx, turnlog.ValidatePrune(before))
	if err == nil {
		forgotten, err = l.sweep(ctx, st, before)
	}
	if err != nil {
		return forgotten, fmt.Errorf("sqliteturnlog: prune: %w", l.db.Explain(ctx, err))
	}
	return forgotten, nil
}

// sweep walks through the runs, and returns how many it has forgotten.
func (l *Log) sweep(ctx context.Context, st sqlitestore.Statements, before time.Time) (forgotten int, err error) {
	bound := before.UnixMilli()
	if !before.Equal(milli(bound)) {
		bound++ // what settled in this millisecond settled before
	}
	for after := ""; ; {
		rows, err := st[sliceSQL].QueryContext(ctx, after, pruneSlice, bound)
		found, err := sqlitestore.Collect(rows, err, scanSlice)
		if err != nil {
			return forgotten, err
		}
		if found[0].old > 0 {
			n, err := l.forget(ctx, st, after, found[0].last, bound)
			if forgotten += n; err != nil {
				return forgotten, err
			}
		}
		if found[0].rows < pruneSlice {
			return forgotten, nil
		}
		after = found[0].last
	}
}

// forget removes the runs between two that are still to be forgotten.
func (l *Log) forget(ctx context.Context, st sqlitestore.Statements, args ...any) (forgotten int, err error) {
	err = l.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, st[forgetPhasesSQL]).ExecContext(ctx, args...); err != nil {
			return err
		}
		n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[forgetSQL]).ExecContext(ctx, args...))
		forgotten = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

// A slice is the part of the runs that a walk sees at once.
type slice struct {
	rows, old int
	last      string
}

func scanSlice(rows *sql.Rows) (s slice, err error) {
	err = rows.Scan(&s.rows, &s.last, &s.old)
	return s, err
}
