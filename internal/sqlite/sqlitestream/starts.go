package sqlitestream

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/stream"
)

// A row of chunks may have some that are kept, and some before that are not. The rows come by the index, which has no
// run: the first row of each run counts.
const startsSQL = `
	SELECT c.run, max(c.first, s.first)
	FROM {prefix}streams s JOIN {prefix}chunks c ON c.orchestrator = ?1 AND c.session = ?2 AND c.last >= s.first
	WHERE s.orchestrator = ?1 AND s.session = ?2 AND s.at > ?3
	ORDER BY c.last`

// A start is the number of the first kept chunk of a run.
type start struct {
	run string
	seq int64
}

// Starts implements [stream.Store]. It does not read the chunks.
func (s *Store) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	st, err := s.db.Start(ctx, k.Validate())
	if err != nil {
		return nil, s.error(ctx, "list the runs of", k, err)
	}
	rows, err := st[startsSQL].QueryContext(ctx, k.Orchestrator, k.Session, s.since())
	all, err := sqlitestore.Collect(rows, err, func(rows *sql.Rows) (r start, err error) {
		err = rows.Scan(&r.run, &r.seq)
		return r, err
	})
	if err != nil {
		return nil, s.error(ctx, "list the runs of", k, err)
	}
	starts := make(map[string]int64, len(all))
	for _, r := range all {
		if _, known := starts[r.run]; !known {
			starts[r.run] = r.seq
		}
	}
	return starts, nil
}
