package pgcheckpoint

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// botsSQL looks in the primary key for the first session of each orchestrator, so it costs by the orchestrators.
const botsSQL = `
	WITH RECURSIVE b (name) AS (
		(SELECT orchestrator FROM {sessions} ORDER BY orchestrator LIMIT 1)
		UNION ALL
		SELECT (SELECT orchestrator FROM {sessions} WHERE orchestrator > b.name ORDER BY orchestrator LIMIT 1)
		FROM b WHERE b.name IS NOT NULL
	)
	SELECT name FROM b WHERE name IS NOT NULL`

// Bots returns the names of the orchestrators that have a session, in byte order.
func (s *Store) Bots(ctx context.Context) ([]string, error) {
	names, err := pgstate.Collect(ctx, s.db, pgx.RowTo[string], 0, s.sql.bots)
	return names, s.error(ctx, "bots", checkpoint.Key{}, err)
}
