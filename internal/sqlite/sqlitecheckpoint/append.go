package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	settleSQL = `
		UPDATE {prefix}sessions SET
			turn = ?5,
			pruned = first,
			first = max(first, min(?5 - ?6 + 1, coalesce(owed, ?5))),
			owed = coalesce(owed, CASE WHEN ?7 THEN ?5 END),
			nonce = CASE WHEN ?8 THEN '' ELSE nonce END,
			lease_until = CASE WHEN ?8 THEN ?9 ELSE max(lease_until, ?9) END
		WHERE orchestrator = ?1 AND session = ?2 AND epoch = ?3 AND nonce = ?4 AND turn = ?5 - 1
		RETURNING pruned, first`

	insertSQL = `
		INSERT INTO {prefix}turns (orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id, saved_at)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
		ON CONFLICT (orchestrator, session, turn) DO NOTHING`

	pruneSQL = `
		DELETE FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND turn >= ?3 AND turn < ?4`

	refusalSQL = `
		SELECT epoch, nonce, EXISTS (
			SELECT 1 FROM {prefix}turns
			WHERE orchestrator = ?1 AND session = ?2 AND run_id = ?3)
		FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2`
)

// errRefused says that a settle found no head to move.
var errRefused = errors.New("refused")

// Append settles cp in one transaction. If the settle is refused, another statement finds out why.
func (s *Store) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	_, err := s.append(ctx, l, cp, o, nil)
	return err
}

// append is Append with the work of forget in its transaction; nil does none.
func (s *Store) append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
	forget Forget,
) (forgotten bool, err error) {
	keep, err := o.Kept()
	labels, wrong := o.Relabeled()
	st, err := s.db.Start(ctx, l.Validate(), cp.Validate(), err, wrong)
	if err == nil {
		err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
			if err := settle(ctx, tx, st, l, cp, o, keep); err != nil {
				return err
			}
			if labels != nil {
				if err := relabel(context.WithoutCancel(ctx), tx, st, l.Key, labels); err != nil {
					return err
				}
			}
			if forget != nil {
				forgotten, err = forget(context.WithoutCancel(ctx), tx, l, cp)
			}
			return err
		})
	}
	if errors.Is(err, errRefused) {
		err = whyNot(ctx, st, l, cp.RunID, o)
	}
	if err != nil {
		return false, fmt.Errorf("sqlitecheckpoint: append %q turn %d: %w", l.Session, cp.Turn, s.db.Explain(ctx, err))
	}
	return forgotten, nil
}

func settle(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements,
	l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions, keep int,
) error {
	now := time.Now().UnixMicro()
	var pruned, first int
	err := tx.StmtContext(ctx, st[settleSQL]).
		QueryRowContext(ctx, l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce,
			cp.Turn, keep, o.Owes, o.Release, now).
		Scan(&pruned, &first)
	if errors.Is(err, sql.ErrNoRows) {
		return errRefused
	}
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // we have the write lock: the rest is short
	if err := insert(ctx, tx, st, l.Key, cp, now); err != nil || pruned == first {
		return err
	}
	_, err = tx.StmtContext(ctx, st[pruneSQL]).ExecContext(ctx, l.Orchestrator, l.Session, pruned, first)
	return err
}

func insert(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, k checkpoint.Key, cp checkpoint.Checkpoint, now int64,
) error {
	route := noRoute
	if len(cp.Route) > 0 {
		doc, err := json.Marshal(cp.Route)
		if err != nil {
			return err
		}
		route = string(doc)
	}
	n, err := sqlitestore.Affected(tx.StmtContext(ctx, st[insertSQL]).ExecContext(ctx,
		k.Orchestrator, k.Session, cp.Turn, string(cp.State), orNull(string(cp.Payload)), route,
		cp.Signature, cp.Version, cp.RunID, orNull(cp.RequestID), now))
	if err == nil && n == 0 {
		err = checkpoint.DamagedTurn(k, cp.Turn, errors.New("it is there, and the head says that it is not settled"))
	}
	return err
}

func orNull(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }

// whyNot explains an Append that found no head to move.
func whyNot(
	ctx context.Context, st sqlitestore.Statements, l checkpoint.Lease, run string, o checkpoint.AppendOptions,
) error {
	var f lock.Fence
	var kept bool
	err := st[refusalSQL].QueryRowContext(ctx, l.Orchestrator, l.Session, run).Scan(&f.Epoch, &f.Nonce, &kept)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.ErrFenced
	case err != nil:
		return err
	case kept:
		return o.Known()
	case f != l.Fence:
		return lock.ErrFenced
	}
	return checkpoint.ErrConflict
}
