package sqlitesnapshot

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const ownerSQL = `
		SELECT id, status, epoch, nonce, seq, deleted_at IS NOT NULL FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2`

// A row is a session's row in the store: the run in flight, or the row that the last deleted run has left.
type row struct {
	snapshot.Run
	deleted bool
}

// fences reports whether f is too low for the session.
func (r *row) fences(f lock.Fence) bool {
	return f.Epoch < r.Fence.Epoch || f.Epoch == r.Fence.Epoch && f.Nonce != r.Fence.Nonce
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
	r.Age = max(0, time.Since(r.StartedAt))
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

func orNull(doc json.RawMessage) sql.NullString {
	return sql.NullString{String: string(doc), Valid: len(doc) > 0}
}

// notBefore returns the end of a pause that begins now, or NULL if there is no pause.
func notBefore(now time.Time, pause time.Duration) sql.NullInt64 {
	return sql.NullInt64{Int64: now.Add(pause).UnixMicro(), Valid: pause > 0}
}
