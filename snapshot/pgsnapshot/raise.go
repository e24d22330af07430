package pgsnapshot

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/snapshot"
)

// RaiseEpochs makes the store refuse every fence that was issued up to now. It returns for how many sessions. Call it
// after a standby was promoted that may lack commits of the primary. Call it before the RaiseEpochs of the checkpoint
// store: the later claims then have fences above the fences that this RaiseEpochs leaves.
//
// With [Options].Functions RaiseEpochs takes one session after another. After an error, call it again.
func (s *Store) RaiseEpochs(ctx context.Context) (sessions int, err error) {
	if s.calls != nil {
		sessions, err = s.db.CallAll(ctx, s.calls.known, s.calls.raise)
		return sessions, s.error(ctx, "raise epochs", snapshot.Key{}, err)
	}
	sessions, err = collectOne(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	return sessions, s.error(ctx, "raise epochs", snapshot.Key{}, err)
}
