package pgledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// slice is how many rows one statement of Prune reads. For a short statement_timeout it reads fewer.
const slice = 1000

// Prune implements [ledger.Ledger]. It walks both tables in slices, each a transaction of its own, and skips effects
// that are locked. No index serves it, since each effect would have to keep that index. So call it once a day, say.
func (l *Ledger) Prune(ctx context.Context, before time.Time) (forgotten int, err error) {
	err = walk(ctx, func(after string, size int) (string, int, error) {
		s, err := l.pruneEffects(ctx, before, after, size)
		forgotten += s.gone
		return s.last, s.seen, err
	})
	if err == nil {
		err = walk(ctx, func(after string, size int) (string, int, error) {
			return l.pruneFences(ctx, before, after, size)
		})
	}
	return forgotten, l.error(ctx, "prune", "", err)
}

// walk calls step for slice after slice, until a slice has fewer rows than its size. step returns the last row of the
// slice and the number of its rows.
func walk(ctx context.Context, step func(after string, size int) (last string, seen int, err error)) error {
	after := ""
	for size := slice; ; {
		last, seen, err := step(after, size)
		switch {
		case pgstate.Of(err) == pgstate.QueryCanceled && ctx.Err() == nil && size > 1:
			size = max(1, size/8)
			continue
		case err != nil || seen < size:
			return err
		}
		after = last
	}
}

type pruned struct {
	gone, seen int
	last       string
}

func (l *Ledger) pruneEffects(ctx context.Context, before time.Time, after string, size int) (s pruned, err error) {
	err = l.db.Answered(ctx, func() error {
		s, err = pgstate.Row(ctx, l.db, func(from pgx.CollectableRow) (s pruned, err error) {
			err = from.Scan(&s.gone, &s.seen, &s.last, nil)
			return s, err
		}, l.sql.prune, before, after, size)
		return err
	})
	return s, err
}

func (l *Ledger) pruneFences(
	ctx context.Context, before time.Time, after string, size int,
) (last string, seen int, err error) {
	type fence struct {
		level, run string
		idle       bool
	}
	found, err := pgstate.Collect(ctx, l.db, func(from pgx.CollectableRow) (f fence, err error) {
		err = from.Scan(&f.level, &f.run, &f.idle)
		return f, err
	}, size, l.sql.idle, before, after, size)
	if err != nil || len(found) == 0 {
		return "", 0, err
	}
	if found[0].level != readCommitted {
		l.db.Frame() // a stricter level would hide from forget what lockIdle has waited for
	}
	var idle []string
	for _, f := range found {
		if f.idle {
			idle = append(idle, f.run)
		}
	}
	return found[len(found)-1].run, len(found), l.forget(ctx, idle, before)
}

// forget removes fences of runs that still have no effects.
func (l *Ledger) forget(ctx context.Context, runs []string, before time.Time) error {
	if len(runs) == 0 {
		return nil
	}
	return l.db.Answered(ctx, func() error {
		var b pgx.Batch
		b.Queue(l.sql.lockIdle, runs)
		b.Queue(l.sql.forget, runs, before)
		return l.db.SendBatch(ctx, &b).Close()
	})
}
