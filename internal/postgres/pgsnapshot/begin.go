package pgsnapshot

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Begin implements [snapshot.Store].
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	for {
		begun, err := s.begin(ctx, r)
		if err != nil || begun {
			return nil, s.error(ctx, "begin", r.Key, err)
		}
		found, err := s.find(ctx, r)
		if errors.Is(err, pgx.ErrNoRows) {
			continue // the run in flight has been deleted since, or Sweep has forgotten it
		}
		if err == nil {
			err = found.intact()
		}
		if err != nil {
			return nil, s.error(ctx, "begin", r.Key, err)
		}
		return &found.Run, nil
	}
}

// begin reports whether it wrote r. It writes r in place of a deleted run, or as the first run of the session.
func (s *Store) begin(ctx context.Context, r snapshot.Run) (bool, error) {
	begin, create := s.sql.begin, s.sql.create
	args := []any{
		r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq,
		r.Fence.Epoch, r.Fence.Nonce, document(r), r.Error, microseconds(r.Pause),
	}
	if s.calls != nil {
		return s.call(ctx, s.calls.begin, withParts(args, r.Parts)...)
	}
	if len(r.Parts) > 0 {
		begin, create, args = s.sql.beginParts, s.sql.createParts, withParts(args, r.Parts)
	}
	begun, err := s.db.Touch(ctx, begin, args...)
	if err == nil && begun == 0 {
		begun, err = s.db.Touch(ctx, create, args...)
	}
	return begun > 0, err
}

// If a payload has lost a block, every statement that reads the payload fails as a whole, with all its effects. The row
// itself can be read, so the store sends the statement once more without the payload.

// find returns the run in flight, and makes sure that no run begins under the fence of r. If no run is in flight and
// the fence is spent, find returns lock.ErrFenced. If r may begin again, find returns pgx.ErrNoRows.
func (s *Store) find(ctx context.Context, r snapshot.Run) (row, error) {
	if s.calls != nil {
		return s.callFind(ctx, r)
	}
	args := []any{r.Orchestrator, r.Session, r.Fence.Epoch}
	found, err := pgstate.One(ctx, s.db, scan, s.sql.find, args...)
	if pgstate.Corrupt(err) {
		return s.unread(ctx, err, s.sql.findBrief, args...)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return found, err
	}
	spent, failed := pgstate.One(ctx, s.db, pgx.RowTo[bool], s.sql.spent, args...)
	switch {
	case failed != nil:
		err = failed
	case spent:
		err = lock.ErrFenced
	}
	return found, err
}
