package pgsnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/snapshot"
)

// unread returns a run that the server cannot read, because of why, by a brief statement.
func (s *Store) unread(ctx context.Context, why error, brief string, args ...any) (row, error) {
	r, err := pgstate.One(ctx, s.db, scan, brief, args...)
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
		found, err := s.session(ctx, q, "", s.sql.listed)
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
