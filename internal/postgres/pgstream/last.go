package pgstream

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/stream"
)

// Last implements [stream.Store].
func (s *Store) Last(ctx context.Context, k stream.Key) (seq int64, run string, status stream.Status, err error) {
	if err := k.Validate(); err != nil {
		return 0, "", "", err
	}
	if ctx.Err() != nil {
		return 0, "", "", ctxcause.Of(ctx)
	}
	h, err := pgstate.One(ctx, s.db, scanHead, s.sql.head, k.Orchestrator, k.Session)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, "", stream.Ended, nil
	}
	return h.last, h.run, h.status, s.db.Error(ctx, "last", k, err)
}

// A head holds the row of a session.
type head struct {
	last, epoch int64
	run         string
	status      stream.Status
}

func scanHead(row pgx.CollectableRow) (h head, err error) {
	err = row.Scan(&h.last, &h.run, (*string)(&h.status), &h.epoch)
	return h, err
}
