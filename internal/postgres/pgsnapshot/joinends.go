package pgsnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgjoin"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// JoinEnds implements [snapshot.EndJoiner]. There is no function of the database that does it.
func (s *Store) JoinEnds(turns checkpoint.Store, log turnlog.Log) snapshot.SettleEnd {
	t, ok := turns.(*pgcheckpoint.Store)
	ends, logs := log.(pgjoin.Log)
	if !ok || !logs || !ends.EndPart().DB.Shares(s.db) {
		return nil
	}
	joined := t.Joined(s.part().After(ends.EndPart(), "ended"))
	if joined == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, end snapshot.End,
	) (forgotten bool, err error) {
		return joined(ctx, l, cp, o, end.At.UTC(), string(end.State))
	}
}
