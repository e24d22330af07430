package pgsnapshot

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/snapshot"
)

// Raise implements lock.Raiser. It returns of how many sessions a fence was known.
//
// With [Options].Functions it takes one session after another. After an error, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if s.calls != nil {
		ended, err = s.db.CallAll(ctx, s.calls.known, s.calls.raise)
	} else {
		ended, err = collectOne(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	}
	return ended, s.error(ctx, "raise", snapshot.Key{}, err)
}
