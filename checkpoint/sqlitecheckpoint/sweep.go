package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
)

const (
	idleSQL = `
		SELECT orchestrator, session FROM {prefix}sessions
		WHERE (orchestrator, session) > (?1, ?2) AND lease_until < ?3 AND owed IS NULL
		ORDER BY orchestrator, session
		LIMIT ?4`

	retireSQL = `
		DELETE FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2 AND lease_until < ?3 AND owed IS NULL`
)

// sweepBatch is how many sessions one transaction retires, while all who write wait.
const sweepBatch = 100

// Sweep looks for idle sessions without a lock, and retires them in transactions of 100. It reads every head.
func (s *Store) Sweep(ctx context.Context, limit int) (retired int, err error) {
	st, err := s.db.Start(ctx)
	var after checkpoint.Key
	for idleSince := time.Now().Add(-s.ttl).UnixMicro(); err == nil && s.ttl > 0; {
		batch := sweepBatch
		if limit > 0 {
			batch = min(limit-retired, sweepBatch)
		}
		var idle []checkpoint.Key
		rows, e := st[idleSQL].QueryContext(ctx, after.Orchestrator, after.Session, idleSince, batch)
		if idle, err = sqlitestore.Collect(rows, e, scanKey); err != nil || len(idle) == 0 {
			break
		}
		var n int
		n, err = s.retire(ctx, st, idle, idleSince)
		retired += n
		if limit > 0 && retired == limit {
			break
		}
		after = idle[len(idle)-1]
	}
	if err != nil {
		return retired, fmt.Errorf("sqlitecheckpoint: sweep: %w", s.db.Explain(ctx, err))
	}
	return retired, nil
}

// retire deletes the sessions that are still idle, and returns how many these were.
func (s *Store) retire(ctx context.Context, st sqlitestore.Statements, idle []checkpoint.Key, since int64) (retired int, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		head, turns := tx.StmtContext(ctx, st[retireSQL]), tx.StmtContext(ctx, st[deleteTurnsSQL])
		for _, k := range idle {
			n, err := sqlitestore.Affected(head.ExecContext(ctx, k.Orchestrator, k.Session, since))
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			if _, err := turns.ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
				return err
			}
			retired++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return retired, nil
}

func scanKey(rows *sql.Rows) (k checkpoint.Key, err error) {
	err = rows.Scan(&k.Orchestrator, &k.Session)
	return k, err
}
