package sqliteinbox

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	removeSQL     = removeKindSQL + ` AND id = ?4`
	removeKindSQL = removeAllSQL + ` AND kind = ?3`
	removeAllSQL  = `DELETE FROM {prefix}inbox WHERE orchestrator = ?1 AND session = ?2`
)

// Remove is one transaction.
func (s *Store) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	st, err := s.db.Start(ctx, inbox.ValidateRemove(k, kind, ids))
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) error { return remove(ctx, tx, st, k, kind, ids) })
	}
	if err != nil {
		return fmt.Errorf("sqliteinbox: remove %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return nil
}

func remove(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, k inbox.Key, kind inbox.Kind, ids []string,
) error {
	exec := func(text string, args ...any) error {
		_, err := tx.StmtContext(ctx, st[text]).ExecContext(ctx, append([]any{k.Orchestrator, k.Session}, args...)...)
		return err
	}
	switch {
	case kind == "":
		return exec(removeAllSQL)
	case len(ids) == 0:
		return exec(removeKindSQL, string(kind))
	}
	for _, id := range ids {
		if err := exec(removeSQL, string(kind), id); err != nil {
			return err
		}
	}
	return nil
}
