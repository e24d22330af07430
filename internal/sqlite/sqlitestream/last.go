package sqlitestream

import (
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/stream"
)

const headSQL = `SELECT last, run, status, epoch, at FROM {prefix}streams WHERE orchestrator = ?1 AND session = ?2`

// Last implements [stream.Store].
func (s *Store) Last(ctx context.Context, k stream.Key) (seq int64, run string, status stream.Status, err error) {
	st, err := s.db.Start(ctx, k.Validate())
	var h *head
	if err == nil {
		h, err = headOf(ctx, st[headSQL], k)
	}
	switch {
	case err != nil:
		return 0, "", "", s.error(ctx, "last", k, err)
	case h == nil || h.at <= s.since():
		return 0, "", stream.Ended, nil
	}
	return h.last, h.run, h.status, nil
}

// A head holds the row of a session.
type head struct {
	last, epoch, at int64
	run             string
	status          stream.Status
}

// headOf returns nil if there is no row.
func headOf(ctx context.Context, stmt *sql.Stmt, k stream.Key) (*head, error) {
	rows, err := stmt.QueryContext(ctx, k.Orchestrator, k.Session)
	return first(rows, err, func(rows *sql.Rows) (h head, err error) {
		err = rows.Scan(&h.last, &h.run, (*string)(&h.status), &h.epoch, &h.at)
		return h, err
	})
}
