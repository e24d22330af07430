package pgsnapshot

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/pgstate"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// If a payload has lost a block, every statement that reads the payload fails as a whole, with all its effects. The row
// itself can be read, so the store sends the statement once more without the payload.

// find returns the run in flight, and makes sure that no run begins under the fence of r. If no run is in flight and
// the fence is spent, find returns lock.ErrFenced. If r may begin again, find returns pgx.ErrNoRows.
func (s *Store) find(ctx context.Context, r snapshot.Run) (row, error) {
	if s.calls != nil {
		return s.callFind(ctx, r)
	}
	args := []any{r.Orchestrator, r.Session, r.Fence.Epoch}
	found, err := one(ctx, s.db, s.sql.find, args...)
	if pgstate.Corrupt(err) {
		return s.unread(ctx, err, s.sql.findBrief, args...)
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return found, err
	}
	spent, failed := collectOne(ctx, s.db, pgx.RowTo[bool], s.sql.spent, args...)
	switch {
	case failed != nil:
		err = failed
	case spent:
		err = lock.ErrFenced
	}
	return found, err
}

// unread returns a run that the server cannot read, because of why, by a brief statement.
func (s *Store) unread(ctx context.Context, why error, brief string, args ...any) (row, error) {
	r, err := one(ctx, s.db, brief, args...)
	r.unread = why
	return r, err
}

// pageByRow reads the next runs one by one. Of a run that cannot be read it returns a brief row.
func (s *Store) pageByRow(
	ctx context.Context, q snapshot.Query, after string, size int, why error,
) (page []row, more bool, err error) {
	brief := q
	brief.Brief = true
	listed, err := s.list(ctx, brief, after, size)
	if err != nil {
		return nil, false, why
	}
	for _, r := range listed {
		q.Session = r.Session
		found, err := s.list(ctx, q, "", 1)
		switch {
		case pgstate.Corrupt(err):
			r.unread = err
			page = append(page, r)
		case err != nil:
			return page, false, err
		default:
			page = append(page, found...) // empty if the run was deleted since
		}
	}
	return page, len(listed) == size, nil
}
