package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/apart"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
)

// renewSQL is one statement for all leases. Each lease is looked up by the primary key.
const renewSQL = `
		UPDATE {prefix}sessions SET lease_until = ?1
		WHERE (orchestrator, session, epoch, nonce) IN (
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?2))
		RETURNING orchestrator, session, epoch, nonce`

// Renew extends all leases in one statement. If SQLite cannot write one of their rows, the leases are divided until
// that lease is alone.
func (s *Store) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	st, err := s.db.Start(ctx, checkpoint.ValidateRenew(ttl, leases))
	var unknown []checkpoint.Lease
	if err == nil && len(leases) > 0 {
		unknown, err = apart.Do(leases, func(some []checkpoint.Lease) error {
			gone, err := s.renew(ctx, st, ttl, some)
			lost = append(lost, gone...)
			return err
		}, divides)
	}
	if err != nil {
		err = fmt.Errorf("sqlitecheckpoint: renew %d leases: %w", len(leases), s.db.Explain(ctx, err))
	}
	if err != nil && len(unknown) > 0 && len(unknown) < len(leases) {
		err = &checkpoint.RenewError{Unknown: unknown, Err: err}
	}
	return lost, err
}

// divides returns into how many pieces leases are divided after err.
func divides(err error, _ int) int {
	if sqlitestore.Corrupt(err) || sqlitestore.Constraint(err) {
		return 2
	}
	return 1
}

func (s *Store) renew(
	ctx context.Context, st sqlitestore.Statements, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	list := make([][4]any, len(leases))
	for i, l := range leases {
		list[i] = [4]any{l.Orchestrator, l.Session, l.Fence.Epoch, l.Fence.Nonce}
	}
	doc, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	held, err := s.extend(ctx, st, ttl, string(doc))
	if err != nil {
		return nil, err
	}
	for _, l := range leases {
		if _, ok := held[l]; !ok {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

func (s *Store) extend(
	ctx context.Context, st sqlitestore.Statements, ttl time.Duration, leases string,
) (map[checkpoint.Lease]struct{}, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := st[renewSQL].QueryContext(ctx, time.Now().Add(ttl).UnixMicro(), leases)
	extended, err := sqlitestore.Collect(rows, err, scanLease)
	if err == nil {
		err = s.db.There() // an error if the file is gone, and the write with it
	}
	held := make(map[checkpoint.Lease]struct{}, len(extended))
	for _, l := range extended {
		held[l] = struct{}{}
	}
	return held, err
}

func scanLease(rows *sql.Rows) (l checkpoint.Lease, err error) {
	err = rows.Scan(&l.Orchestrator, &l.Session, &l.Fence.Epoch, &l.Fence.Nonce)
	return l, err
}
