package pgturnlog

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Restore implements [turnlog.Log]. It is one statement.
func (l *Log) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	if err := turnlog.ValidateRun(run); err != nil {
		return nil, err
	}
	rows, err := pgstate.Collect(ctx, l.db, scanEntries(run), 0, l.sql.restore, run)
	if pgstate.Corrupt(err) {
		rows, err = l.readable(ctx, run)
	}
	all := make([]turnlog.Entry, 0, len(rows))
	var damage error
	for _, r := range rows {
		if why := r.intact(); why != nil {
			damage = why
			continue
		}
		all = append(all, r.Entry)
	}
	if err == nil {
		err = damage
	}
	return all, l.error(ctx, "restore", run, err)
}

// readable reads the entries of a run one by one. Of an entry whose state the server cannot read, it returns the rest.
func (l *Log) readable(ctx context.Context, run string) ([]entryRow, error) {
	rows, err := pgstate.Collect(ctx, l.db, scanEntries(run), 0, l.sql.restoreBrief, run)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if rows[i].unread != nil {
			continue // it is damaged, and its time may find no entry
		}
		state, err := l.state(ctx, l.sql.alone, rows[i].Entry)
		switch {
		case pgstate.Corrupt(err):
			rows[i].unread = err
		case err != nil:
			return rows[:i], err
		}
		rows[i].State = state
	}
	return rows, nil
}
