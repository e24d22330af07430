package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	// INDEXED BY is needed: by default SQLite prefers the primary key.
	runsSQL      = `SELECT ` + columns + inFlight
	runsBriefSQL = `SELECT ` + brief + inFlight

	inFlight = ` FROM {prefix}runs INDEXED BY {prefix}runs_inflight
		WHERE orchestrator = ?1 AND session > ?2 AND deleted_at IS NULL AND (?3 = '' OR status = ?3 OR ` + unknown + `)
		ORDER BY session
		LIMIT ?4`

	sessionSQL      = `SELECT ` + columns + ofSession
	sessionBriefSQL = `SELECT ` + brief + ofSession

	ofSession = ` FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?5 AND session > ?2 AND deleted_at IS NULL AND (?3 = '' OR status = ?3 OR ` + unknown + `)
		LIMIT ?4`

	// Every query selects a run with a status that no store wrote.
	unknown = `status IS NULL OR status NOT IN ('running', 'waiting', 'suspended', 'parked', 'ended')`

	ownerSQL = `
		SELECT id, status, epoch, nonce, seq, deleted_at IS NOT NULL FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2`
)

// Pages grow. The first runs of a drain should come soon. Pages stay small, because a page is held in memory.
const firstPage, mostPage, briefPage = 16, 64, 500

// Runs reads pages of 16 and then 64 runs. Brief runs come in pages of 500.
func (s *Store) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		st, err := s.db.Start(ctx, q.Validate())
		after, left := q.After, q.Limit
		for limit := firstPage; err == nil; limit = mostPage {
			if q.Brief {
				limit = briefPage
			}
			if q.Limit > 0 {
				limit = min(limit, left)
			}
			var page []finding
			var more bool
			page, more, err = readPage(ctx, st, q, after, limit)
			for _, f := range page {
				if !yield(f.Run, f.damage) {
					return
				}
				after = f.Session
			}
			left -= len(page)
			if err == nil && (!more || q.Limit > 0 && left == 0 || q.Session != "") {
				return
			}
		}
		yield(snapshot.Run{}, fmt.Errorf("sqlitesnapshot: runs of %q: %w", q.Orchestrator, s.db.Explain(ctx, err)))
	}
}

// readPage returns the next runs, and whether there may be more. If SQLite cannot read them all, readPage reads them
// one by one. Of a run that cannot be read it returns a brief finding.
func readPage(
	ctx context.Context, st sqlitestore.Statements, q snapshot.Query, after string, limit int,
) (page []finding, more bool, err error) {
	page, err = list(ctx, st, q, after, limit)
	if !sqlitestore.Corrupt(err) || q.Brief {
		return page, len(page) == limit, err
	}
	brief := q
	brief.Brief = true
	listed, e := list(ctx, st, brief, after, limit)
	if e != nil {
		return page, false, err
	}
	page = nil
	for _, f := range listed {
		q.Session = f.Session
		found, err := list(ctx, st, q, "", 1)
		switch {
		case sqlitestore.Corrupt(err):
			f.damage = snapshot.Damaged(f.Key, err)
			page = append(page, f)
		case err != nil:
			return page, false, err
		default:
			page = append(page, found...) // empty if the run was deleted since
		}
	}
	return page, len(listed) == limit, nil
}

// list returns the next runs. It stops at the first run that SQLite cannot read.
func list(
	ctx context.Context, st sqlitestore.Statements, q snapshot.Query, after string, limit int,
) ([]finding, error) {
	stmt, args := st[runsSQL], []any{q.Orchestrator, after, string(q.Status), limit}
	if q.Brief {
		stmt = st[runsBriefSQL]
	}
	if q.Session != "" {
		stmt, args = st[sessionSQL], append(args, q.Session)
		if q.Brief {
			stmt = st[sessionBriefSQL]
		}
	}
	rows, err := stmt.QueryContext(ctx, args...)
	return sqlitestore.Collect(rows, err, scan)
}

// one returns the row that a statement finds, or nil.
func one[T any](ctx context.Context, stmt *sql.Stmt, read func(*sql.Rows) (T, error), args ...any) (*T, error) {
	rows, err := stmt.QueryContext(ctx, args...)
	found, err := sqlitestore.Collect(rows, err, read)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// A row is a session's row in the store: the run in flight, or the row that the last deleted run has left.
type row struct {
	snapshot.Run
	deleted bool
}

// fences reports whether f is too low for the session.
func (r *row) fences(f lock.Fence) bool {
	return f.Epoch < r.Fence.Epoch || f.Epoch == r.Fence.Epoch && f.Nonce != r.Fence.Nonce
}

// A finding is a run, and its damage if no store wrote it.
type finding struct {
	snapshot.Run
	damage error
}

// scan reads a run, and judges it. The error of scan is that of the database.
func scan(rows *sql.Rows) (f finding, err error) {
	if f.Run, f.damage = scanColumns(rows); f.damage == nil {
		f.damage = f.Intact()
	}
	return f, rows.Err()
}

// scanColumns reads the columns. If one cannot be read, the columns before it are read. The key is the first.
func scanColumns(rows *sql.Rows) (r snapshot.Run, err error) {
	var notBefore sql.NullInt64
	var startedAt, savedAt int64
	err = rows.Scan(
		&r.Orchestrator, &r.Session, &r.ID, &r.RequestID, &r.Turn, &r.Attempt, &r.Base, (*string)(&r.Status), &r.Seq,
		&r.Fence.Epoch, &r.Fence.Nonce, &r.Error, &notBefore, &startedAt, &savedAt, (*[]byte)(&r.Payload),
	)
	if err != nil {
		return r, snapshot.Damaged(r.Key, err)
	}
	r.StartedAt, r.SavedAt = time.UnixMicro(startedAt).UTC(), time.UnixMicro(savedAt).UTC()
	if notBefore.Valid {
		r.NotBefore = time.UnixMicro(notBefore.Int64).UTC()
		r.Pause = max(0, time.Until(r.NotBefore))
	}
	return r, nil
}

// scanOwner reads the columns that distinguish one run from another, and a copy of a save from a newer save.
func scanOwner(rows *sql.Rows) (r row, err error) {
	if err := rows.Scan(&r.ID, (*string)(&r.Status), &r.Fence.Epoch, &r.Fence.Nonce, &r.Seq, &r.deleted); err != nil {
		return r, fmt.Errorf("%w: stored run: %w", snapshot.ErrDamaged, err)
	}
	return r, nil
}
