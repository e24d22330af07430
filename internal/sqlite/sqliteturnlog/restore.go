package sqliteturnlog

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/turnlog"
)

const (
	restoreSQL      = `SELECT p.run, p.at, p.phase, l.orchestrator, l.session, l.turn, p.state` + fromRun
	restoreBriefSQL = `SELECT p.run, p.at, p.phase, l.orchestrator, l.session, l.turn, NULL` + fromRun

	// An entry without the row of its run is damaged.
	fromRun = `
		FROM {prefix}phases p LEFT JOIN {prefix}logged l ON l.run = p.run
		WHERE p.run = ?1
		ORDER BY p.at, p.phase`
)

// Restore is one statement.
func (l *Log) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.restore(ctx, run)
	if err != nil {
		return all, fmt.Errorf("sqliteturnlog: restore %q: %w", run, l.db.Explain(ctx, err))
	}
	return all, nil
}

func (l *Log) restore(ctx context.Context, run string) (all []turnlog.Entry, err error) {
	st, err := l.db.Start(ctx, turnlog.ValidateRun(run))
	if err != nil {
		return nil, err
	}
	rows, err := st[restoreSQL].QueryContext(ctx, run)
	found, err := sqlitestore.Collect(rows, err, scanEntry)
	if sqlitestore.Corrupt(err) {
		found, err = readable(ctx, st, run)
	}
	for _, f := range found {
		if f.damage == nil {
			all = append(all, f.Entry)
		} else if err == nil {
			err = f.damage
		}
	}
	return all, err
}
