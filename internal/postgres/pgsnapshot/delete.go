package pgsnapshot

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Delete implements [snapshot.Store].
func (s *Store) Delete(ctx context.Context, k snapshot.Key, id string, f lock.Fence) error {
	if err := snapshot.ValidateDelete(k, id, f); err != nil {
		return err
	}
	if s.calls != nil {
		return s.told(ctx, "delete", k, s.calls.delete, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
	}
	for {
		version, err := s.touch(ctx, s.sql.delete, k.Orchestrator, k.Session, id, f.Epoch, f.Nonce)
		if err == nil && version > 0 {
			s.clean(ctx, k, version+1)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return s.error(ctx, "delete", k, err)
		}
		in, err := s.peek(ctx, k)
		switch {
		case err != nil:
			return s.error(ctx, "delete", k, err)
		case tooLow(f, in.Fence):
			return lock.ErrFenced
		case !in.inFlight, in.id != id && in.id != "":
			return nil
		case in.Fence != f:
			return lock.ErrFenced
		} // else f has adopted the run since
	}
}

// tooLow reports whether a session refuses f after it has seen the fence kept.
func tooLow(f, kept lock.Fence) bool {
	return f.Epoch < kept.Epoch || f.Epoch == kept.Epoch && f.Nonce != kept.Nonce
}

// peeked says who may write, according to the session's row. It is zero if there is no row.
type peeked struct {
	lock.Fence
	id       string
	inFlight bool
}

// peek explains a Delete that touched no row. It is a statement of its own: the Delete may have waited for a change
// that the snapshot of the Delete does not show.
func (s *Store) peek(ctx context.Context, k snapshot.Key) (p peeked, err error) {
	p, err = pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (p peeked, err error) {
		err = row.Scan(&p.id, &p.Epoch, &p.Nonce, &p.inFlight)
		return p, err
	}, s.sql.peek, k.Orchestrator, k.Session)
	if errors.Is(err, pgx.ErrNoRows) {
		return peeked{}, nil
	}
	return p, err
}
