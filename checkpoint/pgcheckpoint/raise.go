package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// RaiseEpochs ends the lease of every session that has one, and returns how many had. It is for the moment after the
// promotion of a standby that may lack commits of the primary: an owner that was fenced off by such a commit would be
// the owner again. After RaiseEpochs such an owner settles nothing, and each session is free to be claimed.
//
// With [Options].Functions it takes one session after another. After an error, call it again.
func (s *Store) RaiseEpochs(ctx context.Context) (ended int, err error) {
	if s.calls != nil {
		ended, err = s.db.CallAll(ctx, s.calls.owned, s.calls.raise)
		return ended, s.error(ctx, "raise epochs", checkpoint.Key{}, err)
	}
	page, err := collect(ctx, s.db, pgx.RowTo[int], s.sql.raise)
	if err != nil {
		return 0, s.error(ctx, "raise epochs", checkpoint.Key{}, err)
	}
	return page[0], nil
}
