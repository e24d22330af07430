package pginbox

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// Remove is one statement.
func (s *Store) Remove(ctx context.Context, k inbox.Key, kind inbox.Kind, ids ...string) error {
	if err := inbox.ValidateRemove(k, kind, ids); err != nil {
		return err
	}
	sql, args := s.sql.removeAll, []any{k.Orchestrator, k.Session}
	switch {
	case len(ids) > 0:
		sql, args = s.sql.removeIDs, append(args, string(kind), ids)
	case kind != "":
		sql, args = s.sql.removeKind, append(args, string(kind))
	}
	_, err := pgstate.One(ctx, s.db, pgx.RowTo[bool], sql, args...)
	return s.db.Error(ctx, "remove", k, err)
}
