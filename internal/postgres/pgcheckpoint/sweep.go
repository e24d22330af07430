package pgcheckpoint

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// forEver is longer than any session is idle.
const forEver = 200 * 365 * 24 * time.Hour

// Sweep retires idle sessions. It passes over sessions that are locked. With a limit it looks at a part of the
// sessions, and goes on there the next time. Of several processes only one sweeps. So the cost does not grow with the
// table.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	ttl := s.ttl
	if ttl <= 0 {
		ttl = forEver
	}
	retired, err = s.sweeper.Sweep(ctx, ttl, limit)
	return retired, s.error(ctx, "sweep", checkpoint.Key{}, err)
}

// Raise implements lock.Raiser. It ends the lease of every session that has one, and returns how many had. Each session
// is free to be claimed after that.
//
// With [Options].Functions it takes one session after another. After an error, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if s.calls != nil {
		ended, err = s.db.CallAll(ctx, s.calls.owned, s.calls.raise)
	} else {
		ended, err = pgstate.One(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	}
	return ended, s.error(ctx, "raise", checkpoint.Key{}, err)
}
