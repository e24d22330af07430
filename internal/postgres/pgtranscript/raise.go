package pgtranscript

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/transcript"
)

// Raise implements [transcript.Raiser]. It writes one row.
func (s *Store) Raise(ctx context.Context) error {
	_, err := pgstate.One(ctx, s.db, pgx.RowTo[string], s.sql.raise)
	return s.db.Error(ctx, "raise", transcript.Key{}, err)
}
