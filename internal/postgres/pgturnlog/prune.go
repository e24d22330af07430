package pgturnlog

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/turnlog"
)

const (
	// slice is how many runs one statement of Prune looks at. For a short statement_timeout it looks at fewer.
	slice = 1000

	// batch is how many runs one transaction of Prune forgets.
	batch = 100

	readCommitted = "read committed"
)

// Prune implements [turnlog.Lister]. It walks through the runs in slices, and forgets them in batches, each a
// transaction of its own. No index serves it. So call it once a day, say.
func (l *Log) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	if err := turnlog.ValidatePrune(before); err != nil {
		return 0, err
	}
	after := ""
	for size := slice; ; {
		last, seen, old, err := l.idle(ctx, before, after, size)
		for runs := range slices.Chunk(old, min(batch, size)) {
			if err != nil {
				break
			}
			var n int
			n, err = l.forget(ctx, before, runs)
			forgotten += n
		}
		switch {
		case pgstate.Of(err) == pgstate.QueryCanceled && ctx.Err() == nil && size > 1:
			size = max(1, size/8)
			continue
		case err != nil || seen < size:
			return forgotten, l.error(ctx, "prune", "", err)
		}
		after = last
	}
}

// idle looks at the next runs. It returns the last of them, their number, and which of them can be forgotten.
func (l *Log) idle(
	ctx context.Context, before time.Time, after string, size int,
) (last string, seen int, old []string, err error) {
	type line struct {
		level, run string
		over       bool
	}
	found, err := pgstate.Collect(ctx, l.db, func(from pgx.CollectableRow) (r line, err error) {
		err = from.Scan(&r.level, &r.run, &r.over)
		return r, err
	}, size, l.sql.idle, before.UTC(), after, size)
	if err != nil || len(found) == 0 {
		return "", 0, nil, err
	}
	if found[0].level != readCommitted {
		l.db.Frame() // a stricter level would hide from forget what lock has waited for
	}
	for _, r := range found {
		if r.over {
			old = append(old, r.run)
		}
	}
	return found[len(found)-1].run, len(found), old, nil
}

// forget removes runs that can still be forgotten, and returns how many.
func (l *Log) forget(ctx context.Context, before time.Time, runs []string) (n int, err error) {
	err = l.db.Answered(ctx, func() error {
		n = 0
		var b pgx.Batch
		b.Queue(l.sql.lock, runs)
		b.Queue(l.sql.forget, before.UTC(), runs).QueryRow(func(row pgx.Row) error { return row.Scan(&n, nil) })
		return l.db.SendBatch(ctx, &b).Close()
	})
	return n, err
}
