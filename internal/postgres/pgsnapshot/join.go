package pgsnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Join joins with a *[pgcheckpoint.Store] on the same pool or connection. A Settle then is one statement. Its commit is
// as durable as that of Append.
func (s *Store) Join(turns checkpoint.Store) snapshot.Settle {
	t, ok := turns.(*pgcheckpoint.Store)
	if !ok {
		return nil
	}
	part := s.part()
	if s.calls != nil {
		part.Call = s.calls.settle
	}
	joined := t.Joined(part)
	if joined == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		return joined(ctx, l, cp, o)
	}
}

func (s *Store) part() pgjoin.Part { return pgjoin.Part{DB: s.db, SQL: s.sql.joined} }
