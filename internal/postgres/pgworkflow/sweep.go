package pgworkflow

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// batch is how many runs one statement of Sweep changes at most.
const batch = 1000

// Sweep implements [workflow.Store]. It passes over runs that are locked.
func (s *Store) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	deleted, err = s.sweepAll(ctx, s.sql.sweep, limit)
	if err == nil {
		_, err = s.sweepAll(ctx, s.sql.unknown, 0)
	}
	if err == nil {
		_, err = pgstate.One(ctx, s.db, pgx.RowTo[string], s.sql.expire)
	}
	return deleted, s.error(ctx, "sweep", "", err)
}

// scanCount reads how many rows a statement has changed.
func scanCount(from pgx.CollectableRow) (n int, err error) {
	err = from.Scan(&n, nil)
	return n, err
}

// sweepAll sends a statement until it finds no more, or has changed as many runs as limit. 0 means no limit.
func (s *Store) sweepAll(ctx context.Context, sql string, limit int) (changed int, err error) {
	for {
		most := batch
		if limit > 0 {
			most = min(most, limit-changed)
		}
		n, err := pgstate.One(ctx, s.db, scanCount, sql, most)
		if changed += n; err != nil || n < most || changed == limit {
			return changed, err
		}
	}
}
