package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
)

const restSQL = `DELETE FROM {beats} WHERE process = $1`

// Rest is one statement.
func (s *Store) Rest(ctx context.Context, process string) error {
	if err := checkpoint.ValidateRest(process); err != nil {
		return err
	}
	scan := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	_, err := collect(ctx, s.db, scan, s.sql.rest, process)
	return s.error(ctx, "rest", checkpoint.Key{}, err)
}
