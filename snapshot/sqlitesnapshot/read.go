package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlitestore"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	runsSQL = `
		SELECT ` + columns + ` FROM {prefix}runs
		WHERE orchestrator = ?1 AND session > ?2 AND (?3 = '' OR status = ?3)
		ORDER BY session
		LIMIT ?4`

	sessionSQL = `
		SELECT ` + columns + ` FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?5 AND session > ?2 AND (?3 = '' OR status = ?3)
		LIMIT ?4`
)

// Pages grow: the first runs of a drain should come soon, and a page is held in memory.
const firstPage, mostPage = 16, 64

// Runs reads pages of 16 and then 64 runs.
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		st, err := s.db.Start(ctx, q.Validate())
		after, left := q.After, q.Limit
		for limit := firstPage; err == nil; limit = mostPage {
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			var page []snapshot.Run
			page, err = readPage(ctx, st, q, after, limit)
			for _, r := range page {
				if !yield(r, nil) {
					return
				}
				after = r.Session
			}
			left -= len(page)
			if err == nil && (len(page) < limit || left == 0 || q.Session != "") {
				return
			}
		}
		yield(snapshot.Run{}, fmt.Errorf("sqlitesnapshot: runs of %q: %w", q.Orchestrator, s.db.Explain(ctx, err)))
	}
}

func readPage(ctx context.Context, st sqlitestore.Statements, q snapshot.Query, after string, limit int) ([]snapshot.Run, error) {
	if q.Session != "" {
		return query(ctx, st[sessionSQL], q.Orchestrator, after, string(q.Status), limit, q.Session)
	}
	return query(ctx, st[runsSQL], q.Orchestrator, after, string(q.Status), limit)
}

// query returns the runs that a statement finds, up to the first that is malformed.
func query(ctx context.Context, stmt *sql.Stmt, args ...any) ([]snapshot.Run, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	return sqlitestore.Collect(rows, err, scan)
}

// scan reads a row and refuses one that no store wrote.
func scan(rows *sql.Rows) (r snapshot.Run, err error) {
	var notBefore sql.NullInt64
	var startedAt, savedAt int64
	err = rows.Scan(&r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base, (*string)(&r.Status), &r.Seq,
		&r.Fence.Epoch, &r.Fence.Nonce, &r.Error, &notBefore, &startedAt, &savedAt, (*[]byte)(&r.Payload))
	if err != nil {
		return r, fmt.Errorf("%w: stored run: %w", snapshot.ErrInvalid, err)
	}
	r.StartedAt, r.SavedAt = time.UnixMicro(startedAt).UTC(), time.UnixMicro(savedAt).UTC()
	if notBefore.Valid {
		r.NotBefore = time.UnixMicro(notBefore.Int64).UTC()
	}
	if err := r.Validate(); err != nil {
		return r, fmt.Errorf("stored run %q: %w", r.ID, err)
	}
	return r, nil
}

// scanOwner reads what tells one run from another, and a copy of a save from what is ahead of it.
func scanOwner(rows *sql.Rows) (r snapshot.Run, err error) {
	if err := rows.Scan(&r.ID, &r.Fence.Epoch, &r.Fence.Nonce, &r.Seq); err != nil {
		return r, fmt.Errorf("%w: stored run: %w", snapshot.ErrInvalid, err)
	}
	return r, nil
}
