package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	deleteHeadSQL = `
		DELETE FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2 AND epoch = ?3 AND nonce = ?4`

	deleteTurnsSQL = `
		DELETE FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2`
)

// Delete removes the session, its turns and its labels in one transaction.
func (s *Store) Delete(ctx context.Context, l checkpoint.Lease) error {
	if err := s.delete(ctx, l); err != nil {
		return fmt.Errorf("sqlitecheckpoint: delete %q: %w", l.Session, s.db.Explain(ctx, err))
	}
	return nil
}

func (s *Store) delete(ctx context.Context, l checkpoint.Lease) error {
	st, err := s.db.Start(ctx, l.Validate())
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		if err := deleteHead(ctx, tx, st, l); err != nil {
			return err
		}
		for _, text := range []string{deleteTurnsSQL, unlabelSQL} {
			if _, err := tx.StmtContext(ctx, st[text]).ExecContext(ctx, l.Orchestrator, l.Session); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteHead deletes the head if l is the latest lease. If the session has another owner, or is in another life, it
// returns lock.ErrFenced.
func deleteHead(ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, l checkpoint.Lease) error {
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[deleteHeadSQL]).
		ExecContext(ctx, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce))
	if err != nil || n > 0 {
		return err
	}
	in, err := ownerOf(ctx, tx.StmtContext(ctx, st[ownerSQL]), l.Key)
	if err == nil && in != nil {
		return lock.ErrFenced
	}
	return err
}
