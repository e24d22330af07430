package sqliteworkflow

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

const (
	expiredSQL = `
		SELECT id FROM {prefix}workflow_runs
		WHERE expires < ?1
		ORDER BY expires LIMIT ?2`

	retireSQL      = `DELETE FROM {prefix}workflow_runs WHERE id = ?1 AND expires < ?2`
	dropInputSQL   = `DELETE FROM {prefix}workflow_inputs WHERE run = ?1`
	dropStepsSQL   = `DELETE FROM {prefix}workflow_steps WHERE run = ?1`
	dropSignalsSQL = `DELETE FROM {prefix}workflow_signals WHERE run = ?1`
	dropGroupSQL   = `DELETE FROM {prefix}workflow_groups WHERE run = ?1`
)

// sweepBatch is how many runs one transaction retires or holds. Meanwhile all writers wait.
const sweepBatch = 100

// Sweep looks without the write lock, and retires runs in transactions of 100.
func (s *Store) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	st, err := s.db.Start(ctx)
	if err == nil {
		deleted, err = s.retire(ctx, st, limit)
	}
	if err == nil {
		err = s.strand(ctx, st)
	}
	if err != nil {
		return deleted, s.explain(ctx, "sweep", err)
	}
	return deleted, nil
}

// retire deletes runs whose retention has passed.
func (s *Store) retire(ctx context.Context, st sqlitestore.Statements, limit int) (deleted int, err error) {
	now := clock().UnixMicro()
	for most := sweepBatch; limit == 0 || deleted < limit; {
		if limit > 0 {
			most = min(most, limit-deleted)
		}
		rows, err := st[expiredSQL].QueryContext(ctx, now, most)
		expired, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText)
		if err != nil || len(expired) == 0 {
			return deleted, err
		}
		n, err := s.retireAll(ctx, st, expired, now)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// retireAll deletes runs in one transaction. If one of them cannot be read, the others are deleted one by one.
func (s *Store) retireAll(
	ctx context.Context, st sqlitestore.Statements, expired []string, now int64,
) (deleted int, err error) {
	deleted, err = s.retireBatch(ctx, st, expired, now)
	if !sqlitestore.Corrupt(err) {
		return deleted, err
	}
	err = nil
	for _, id := range expired {
		n, failed := s.retireBatch(ctx, st, []string{id}, now)
		deleted, err = deleted+n, cmp.Or(err, damaged(id, failed))
	}
	return deleted, err
}

// retireBatch deletes runs with all that belongs to them, unless another sweeper has deleted them.
func (s *Store) retireBatch(
	ctx context.Context, st sqlitestore.Statements, expired []string, now int64,
) (deleted int, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		do := run{sqlitestore.Within(tx, st), s.core}
		for _, id := range expired {
			there, err := do.Wrote(ctx, retireSQL, id, now)
			if there {
				err = do.drop(ctx, id)
				deleted++
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}

// drop deletes what belongs to a run that is deleted.
func (do run) drop(ctx context.Context, id string) error {
	for _, text := range []string{dropInputSQL, dropStepsSQL, dropSignalsSQL, dropGroupSQL} {
		if _, err := do.Exec(ctx, text, id); err != nil {
			return err
		}
	}
	return nil
}
