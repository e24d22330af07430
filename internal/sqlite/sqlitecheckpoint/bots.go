package sqlitecheckpoint

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// botsSQL looks in the primary key for the first session of each orchestrator, so it costs by the orchestrators.
const botsSQL = `
		WITH RECURSIVE b (name) AS (
			SELECT min(orchestrator) FROM {prefix}sessions
			UNION ALL
			SELECT (SELECT min(orchestrator) FROM {prefix}sessions WHERE orchestrator > b.name)
			FROM b WHERE b.name IS NOT NULL
		)
		SELECT name FROM b WHERE name IS NOT NULL`

// Bots returns the names of the orchestrators that have a session, in byte order.
func (s *Store) Bots(ctx context.Context) ([]string, error) {
	var names []string
	st, err := s.db.Start(ctx, nil)
	if err == nil {
		rows, e := st[botsSQL].QueryContext(ctx)
		names, err = sqlitestore.Collect(rows, e, sqlitestore.ScanText)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlitecheckpoint: bots: %w", s.db.Explain(ctx, err))
	}
	return names, nil
}
