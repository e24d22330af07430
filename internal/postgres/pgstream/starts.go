package pgstream

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/stream"
)

// A start is the number of the first kept chunk of a run.
type start struct {
	run string
	seq int64
}

func scanStart(row pgx.CollectableRow) (s start, err error) {
	err = row.Scan(&s.run, &s.seq)
	return s, err
}

// Starts implements [stream.Store]. It does not read the chunks.
func (s *Store) Starts(ctx context.Context, k stream.Key) (map[string]int64, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctxcause.Of(ctx)
	}
	rows, err := pgstate.Collect(ctx, s.db, scanStart, 0, s.sql.starts, k.Orchestrator, k.Session)
	if err != nil {
		return nil, s.db.Error(ctx, "list the runs", k, err)
	}
	starts := make(map[string]int64, len(rows))
	for _, r := range rows {
		starts[r.run] = r.seq
	}
	return starts, nil
}
