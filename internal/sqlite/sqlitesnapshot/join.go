package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Join joins with a *[sqlitecheckpoint.Store] on the same *sql.DB. A Settle then is one transaction.
func (s *Store) Join(turns checkpoint.Store) snapshot.Settle {
	settle := s.joined(turns)
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	) (forgotten bool, err error) {
		return settle(ctx, l, cp, o, s.forgetIn)
	}
}

// joined returns the Append of turns with a place for a Forget of s; nil if the two have no *sql.DB in common.
func (s *Store) joined(turns checkpoint.Store) sqlitecheckpoint.Joined {
	t, ok := turns.(*sqlitecheckpoint.Store)
	if !ok {
		return nil
	}
	settle := t.Joined(s.db)
	if settle == nil {
		return nil
	}
	return func(
		ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
		forget sqlitecheckpoint.Forget,
	) (forgotten bool, err error) {
		// In the transaction the store may ask for no other connection.
		if _, err := s.db.Start(ctx); err != nil {
			return false, fmt.Errorf("sqlitesnapshot: delete %q: %w", l.Session, s.db.Explain(ctx, err))
		}
		return settle(ctx, l, cp, o, forget)
	}
}

// forgetIn deletes the run of a lease in a transaction that has already written.
func (s *Store) forgetIn(
	ctx context.Context, tx *sql.Tx, l checkpoint.Lease, cp checkpoint.Checkpoint,
) (forgotten bool, err error) {
	id := cp.RunID
	st, err := s.db.Start(ctx)
	if err != nil {
		return false, err
	}
	args := []any{l.Orchestrator, l.Session, id, l.Fence.Epoch, l.Fence.Nonce, time.Now().UnixMicro()}
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[deleteSQL]).ExecContext(ctx, args...))
	if n > 0 || err != nil {
		return n > 0, err
	}
	in, err := one(ctx, tx.StmtContext(ctx, st[ownerSQL]), scanOwner, l.Orchestrator, l.Session)
	if err != nil || in == nil || in.deleted || in.Fence != l.Fence || in.ID != id && in.ID != "" {
		return false, err
	}
	c := change{key: l.Key, text: deleteSQL, args: args, clear: true} // the run has parts
	err = c.apply(ctx, tx, st)
	return err == nil, err
}
