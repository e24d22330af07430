package pgsnapshot

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Raise implements lock.Raiser. It returns of how many sessions a fence was known.
//
// With [Options].Functions it takes one session after another. After an error, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if s.calls != nil {
		ended, err = s.db.CallAll(ctx, s.calls.known, s.calls.raise)
	} else {
		ended, err = pgstate.One(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	}
	return ended, s.error(ctx, "raise", snapshot.Key{}, err)
}

// Sweep forgets sessions whose last run was deleted longer ago than [Options].Remember. It skips rows that are locked.
// With a limit Sweep looks at a part of the sessions, and continues there the next time. If several processes sweep at
// once, one of them does the work. So Sweep costs the same, however much the table holds.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	forgotten, err = s.sweeper.Sweep(ctx, s.remember, limit)
	return forgotten, s.error(ctx, "sweep", snapshot.Key{}, err)
}
