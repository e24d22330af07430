package sqlitestream

import (
	"context"
	"database/sql"
	"math"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/stream"
)

const (
	deleteSQL       = `DELETE FROM {prefix}streams WHERE orchestrator = ?1 AND session = ?2 AND at <= ?3`
	deleteChunksSQL = `DELETE FROM {prefix}chunks WHERE orchestrator = ?1 AND session = ?2`
)

// Delete implements [stream.Store].
func (s *Store) Delete(ctx context.Context, k stream.Key) error {
	st, err := s.db.Start(ctx, k.Validate())
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error {
			_, err := s.remove(ctx, tx, st, k, math.MaxInt64)
			return err
		})
	}
	if err == nil {
		s.hub.Tell(id(k), 0, true)
	}
	return s.error(ctx, "delete", k, err)
}

// remove removes what is kept of a session whose last Append is not after a time. It reports whether there was any.
func (s *Store) remove(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, k stream.Key, until int64,
) (bool, error) {
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[deleteSQL]).ExecContext(ctx,
		k.Orchestrator, k.Session, until))
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.StmtContext(ctx, st[deleteChunksSQL]).ExecContext(ctx, k.Orchestrator, k.Session)
	return true, err
}
