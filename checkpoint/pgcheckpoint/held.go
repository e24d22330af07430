package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Held is one statement.
func (s *Store) Held(ctx context.Context, orchestrator string, sessions []string) (held []string, err error) {
	if err := checkpoint.ValidateHeld(orchestrator, sessions); err != nil {
		return nil, err
	}
	if len(sessions) == 0 {
		return nil, ctxcause.Of(ctx)
	}
	err = s.db.Again(ctx, func() error {
		rows, err := s.db.Query(ctx, s.sql.held, orchestrator, sessions)
		if err != nil {
			return err
		}
		held, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return held, s.error(ctx, "held", checkpoint.Key{}, err)
}
