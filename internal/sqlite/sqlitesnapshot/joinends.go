package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitejoin"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/turnlog"
)

// JoinEnds implements [snapshot.EndJoiner].
func (s *Store) JoinEnds(turns checkpoint.Store, log turnlog.Log) snapshot.SettleEnd {
	settle := s.joined(turns)
	ends, ok := log.(sqlitejoin.Log)
	if settle == nil || !ok || !ends.DB().Beside(s.db) {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, end snapshot.End,
	) (forgotten bool, err error) {
		if _, err := ends.DB().Start(ctx); err != nil {
			return false, fmt.Errorf("sqlitesnapshot: delete %q: %w", l.Session, ends.DB().Explain(ctx, err))
		}
		return settle(ctx, l, cp, o, func(
			ctx context.Context, tx *sql.Tx, l checkpoint.Lease, cp checkpoint.Checkpoint,
		) (forgotten bool, err error) {
			added, err := ends.RecordEnd(ctx, tx, sqlitejoin.End{
				Run: cp.RunID, Turn: cp.Turn, Orchestrator: l.Orchestrator, Session: l.Session,
				At: end.At, State: string(end.State),
			})
			if !added || err != nil {
				return false, err
			}
			return s.forgetIn(ctx, tx, l, cp)
		})
	}
}
