package pgcheckpoint

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Raise implements lock.Raiser. It ends the lease of every session that has one, and returns how many had. Each session
// is free to be claimed after that.
//
// With [Options].Functions it takes one session after another. After an error, call it again.
func (s *Store) Raise(ctx context.Context, _ time.Time) (ended int, err error) {
	if s.calls != nil {
		ended, err = s.db.CallAll(ctx, s.calls.owned, s.calls.raise)
		return ended, s.error(ctx, "raise", checkpoint.Key{}, err)
	}
	page, err := collect(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	if err != nil {
		return 0, s.error(ctx, "raise", checkpoint.Key{}, err)
	}
	return page[0], nil
}
