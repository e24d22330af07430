package pgstream

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/ctxcause"
	"github.com/holdfast-go/holdfast/stream"
)

// Delete implements [stream.Store].
func (s *Store) Delete(ctx context.Context, k stream.Key) error {
	if err := k.Validate(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctxcause.Of(ctx)
	}
	return s.db.Error(ctx, "delete", k, s.forget(ctx, k, false))
}

// forget removes what is kept of a session, or only if it is too old.
func (s *Store) forget(ctx context.Context, k stream.Key, old bool) error {
	err := s.db.Pipe(ctx, func(b *pgx.Batch) {
		b.Queue(s.sql.lock, k.Orchestrator, k.Session, old)
		b.Queue(s.sql.forget, k.Orchestrator, k.Session, old, s.channel, id(k))
	})
	if err == nil {
		s.hub.Tell(id(k), 0, true)
	}
	return err
}

// Sweep implements [stream.Sweeper]. With a limit it looks at a part of the sessions, and goes on there the next time.
// Of several processes only one sweeps. So the cost does not grow with the table.
func (s *Store) Sweep(ctx context.Context, limit int) (forgotten int, err error) {
	forgotten, err = s.sweeper.Sweep(ctx, s.ttl, limit)
	return forgotten, s.db.Error(ctx, "sweep", stream.Key{}, err)
}
