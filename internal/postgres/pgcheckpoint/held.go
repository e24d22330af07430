package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/ctxcause"
)

// Held is one statement.
func (s *Store) Held(
	ctx context.Context, orchestrator string, sessions []string,
) (owners map[string]string, err error) {
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
		owners = make(map[string]string)
		var session, owner string
		_, err = pgx.ForEachRow(rows, []any{&session, &owner}, func() error {
			owners[session] = owner
			return nil
		})
		return err
	})
	return owners, s.error(ctx, "held", checkpoint.Key{}, err)
}
