package sqlitesnapshot

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

const (
	beginSQL = `
		INSERT INTO {prefix}runs AS old (` + columns + `, found, parts)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?14, ?15, 0, 0)
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			id = excluded.id,
			request_id = excluded.request_id,
			turn = excluded.turn,
			attempt = excluded.attempt,
			base = excluded.base,
			status = excluded.status,
			seq = excluded.seq,
			epoch = excluded.epoch,
			nonce = excluded.nonce,
			error = excluded.error,
			not_before = excluded.not_before,
			started_at = excluded.started_at,
			saved_at = excluded.saved_at,
			deleted_at = NULL,
			payload = excluded.payload
		WHERE old.deleted_at IS NOT NULL AND excluded.epoch > old.epoch AND excluded.epoch > old.found`

	// The run in flight belongs to another owner, which continues. But no run begins later under the fence of this
	// Begin.
	findSQL = `
		UPDATE {prefix}runs SET found = max(found, ?3)
		WHERE orchestrator = ?1 AND session = ?2 AND deleted_at IS NULL
		RETURNING ` + columns

	// If a run is in flight, it may have begun since. So only a session without a run counts.
	spentSQL = `
		SELECT count(*) FROM {prefix}runs
		WHERE orchestrator = ?1 AND session = ?2 AND deleted_at IS NOT NULL AND (epoch >= ?3 OR found >= ?3)`
)

// Begin writes the run in one statement. If the run has parts, it does so in a transaction. If the run does not begin,
// a second statement notes that, and tells which run is in flight. If none is, a third one tells whether r is too late.
func (s *Store) Begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	in, err := s.begin(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("sqlitesnapshot: begin %q: %w", r.Session, s.db.Explain(ctx, err))
	}
	return in, nil
}

func (s *Store) begin(ctx context.Context, r snapshot.Run) (*snapshot.Run, error) {
	st, err := s.db.Start(ctx, r.Validate())
	for err == nil {
		var begun bool
		if begun, err = s.write(ctx, st, beginning(r)); begun || err != nil {
			return nil, err
		}
		found, err := s.find(ctx, st, r)
		switch {
		case err != nil:
			return nil, err
		case found != nil:
			return found, nil
		}
		spent, err := one(ctx, st[spentSQL], scanCount, r.Orchestrator, r.Session, r.Fence.Epoch)
		if err != nil {
			return nil, err
		}
		if *spent > 0 {
			return nil, lock.ErrFenced
		}
		// The run in flight has ended meanwhile, or its row was swept.
	}
	return nil, err
}

// find returns the run in flight, or nil.
func (s *Store) find(ctx context.Context, st sqlitestore.Statements, r snapshot.Run) (*snapshot.Run, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	found, err := one(ctx, st[findSQL], scan, r.Orchestrator, r.Session, r.Fence.Epoch)
	if found == nil || err != nil {
		return nil, err
	}
	if err := s.db.There(); err != nil { // the note is gone with the file
		return nil, err
	}
	return &found.Run, found.damage
}

func scanCount(rows *sql.Rows) (n int, err error) {
	err = rows.Scan(&n)
	return n, err
}

func beginning(r snapshot.Run) change {
	now := time.Now()
	return change{key: r.Key, text: beginSQL, parts: r.Parts, args: []any{
		r.Orchestrator, r.Session, r.ID, r.RequestID, r.Turn, r.Attempt, r.Base, string(r.Status), r.Seq,
		r.Fence.Epoch, r.Fence.Nonce, r.Error, notBefore(now, r.Pause), now.UnixMicro(), orNull(r.Payload),
	}}
}
