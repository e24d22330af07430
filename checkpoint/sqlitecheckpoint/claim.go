package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	takeSQL = `
		UPDATE {prefix}sessions SET
			epoch = CASE WHEN nonce = ?4 THEN epoch ELSE max(epoch + 1, ?3) END,
			nonce = ?4,
			owner = ?5,
			lease_until = ?6
		WHERE orchestrator = ?1 AND session = ?2 AND (lease_until <= ?7 OR nonce = ?4 OR ?8)
		RETURNING epoch, born, turn, summarized, coalesce(owed, turn + 1)`

	// It changes nothing, and makes the transaction that it begins wait until it may write.
	waitSQL = `UPDATE {prefix}sessions SET epoch = epoch WHERE orchestrator = ?1 AND session = ?2 AND epoch < 0`

	createSQL = `
		INSERT INTO {prefix}sessions AS h (orchestrator, session, epoch, nonce, owner, lease_until, born)
		VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?3)
		ON CONFLICT (orchestrator, session) DO UPDATE SET
			epoch = CASE WHEN h.nonce = excluded.nonce THEN h.epoch ELSE max(h.epoch + 1, excluded.epoch) END,
			nonce = excluded.nonce,
			owner = excluded.owner,
			lease_until = excluded.lease_until
		WHERE h.lease_until <= ?7 OR h.nonce = excluded.nonce OR ?8
		RETURNING epoch, born, turn, summarized, coalesce(owed, turn + 1)`

	// One statement for all leases: each is looked up by the primary key.
	renewSQL = `
		UPDATE {prefix}sessions SET lease_until = ?1
		WHERE (orchestrator, session, epoch, nonce) IN (
			SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(?2))
		RETURNING orchestrator, session, epoch, nonce`

	fenceSQL = `
		SELECT epoch, nonce FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2`
)

// Claim takes the lease in one statement of its own and then reads, unless another holds it.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.claim(ctx, k, r)
	for errors.Is(err, errRobbed) {
		c, err = s.claim(ctx, k, r)
	}
	if err != nil {
		return checkpoint.Claimed{}, fmt.Errorf("sqlitecheckpoint: claim %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (c checkpoint.Claimed, err error) {
	st, err := s.db.Start(ctx, k.Validate(), r.Validate())
	if err != nil {
		return c, err
	}
	h, err := s.take(ctx, st, k, r)
	if err != nil {
		return c, err
	}
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: h.epoch, Nonce: r.Nonce}}
	c.Born, c.Summarized, c.Delivered = h.born, h.summarized, h.delivered
	if h.turn < 0 {
		return c, nil
	}
	if c.Last, err = one(ctx, st[turnsSQL], k.Orchestrator, k.Session, h.turn, 1); err != nil {
		return c, err
	}
	if c.Last == nil || c.Last.Turn != h.turn {
		return c, vanished(ctx, st, c.Lease, h.turn)
	}
	switch r.RequestID {
	case "":
	case c.Last.RequestID:
		c.Answered = clone(c.Last)
	default:
		c.Answered, err = one(ctx, st[answeredSQL], k.Orchestrator, k.Session, r.RequestID, h.turn)
	}
	return c, err
}

// take makes the caller the owner.
func (s *Store) take(ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest) (head, error) {
	taken, err := s.update(ctx, st, k, r)
	if err == nil && len(taken) == 0 {
		taken, err = s.create(ctx, st, k, r)
	}
	if err != nil {
		return head{}, err
	}
	if len(taken) == 0 {
		return head{}, lock.ErrHeld
	}
	return taken[0], nil
}

// update takes a session that exists.
func (s *Store) update(ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest) ([]head, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := st[takeSQL].QueryContext(ctx, s.claimArgs(k, r)...)
	return sqlitestore.Collect(rows, err, scanHead)
}

// create makes the session if it is still not there. It reads the clock when no other process can write: one that did
// meanwhile may have deleted the session, whose epochs must not come back.
func (s *Store) create(ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest) (taken []head, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, st[waitSQL]).ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
			return err
		}
		rows, err := tx.StmtContext(ctx, st[createSQL]).QueryContext(ctx, s.claimArgs(k, r)...)
		taken, err = sqlitestore.Collect(rows, err, scanHead)
		return err
	})
	return taken, err
}

// claimArgs reads the clock. The caller is the writer.
func (s *Store) claimArgs(k checkpoint.Key, r checkpoint.ClaimRequest) []any {
	now := time.Now()
	s.epoch = max(s.epoch+1, now.UnixMicro())
	return []any{k.Orchestrator, k.Session, s.epoch, r.Nonce, r.Owner, now.Add(r.TTL).UnixMicro(), now.UnixMicro(), r.Steal}
}

// A head is what a claim finds in the row of the session.
type head struct {
	epoch, born                 int64
	turn, summarized, delivered int
}

// scanHead reads a row and refuses one that no store wrote.
func scanHead(rows *sql.Rows) (h head, err error) {
	if err := rows.Scan(&h.epoch, &h.born, &h.turn, &h.summarized, &h.delivered); err != nil {
		return h, fmt.Errorf("%w: stored session: %w", checkpoint.ErrInvalid, err)
	}
	counted := func(n int) bool { return 0 <= n && n <= h.turn+1 }
	if h.born <= 0 || h.epoch < h.born || h.turn >= checkpoint.Newest || !counted(h.summarized) || !counted(h.delivered) {
		return h, fmt.Errorf("%w: stored session: epoch %d, born %d, turn %d, summarized %d, delivered %d",
			checkpoint.ErrInvalid, h.epoch, h.born, h.turn, h.summarized, h.delivered)
	}
	return h, nil
}

// errRobbed says that the session was taken from us before we could read it: it is claimed again, as if it had not been
// granted.
var errRobbed = errors.New("taken by another at once")

// vanished explains why the turn that a claim found settled is not there a moment later.
func vanished(ctx context.Context, st sqlitestore.Statements, l checkpoint.Lease, turn int) error {
	var f lock.Fence
	err := st[fenceSQL].QueryRowContext(ctx, l.Orchestrator, l.Session).Scan(&f.Epoch, &f.Nonce)
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case f != l.Fence:
		return errRobbed
	}
	return fmt.Errorf("%w: turn %d is the last settled and not stored", checkpoint.ErrInvalid, turn)
}

// Renew extends all leases in one statement.
func (s *Store) Renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) (lost []checkpoint.Lease, err error) {
	lost, err = s.renew(ctx, ttl, leases)
	if err != nil {
		return nil, fmt.Errorf("sqlitecheckpoint: renew %d leases: %w", len(leases), s.db.Explain(ctx, err))
	}
	return lost, nil
}

func (s *Store) renew(ctx context.Context, ttl time.Duration, leases []checkpoint.Lease) (lost []checkpoint.Lease, err error) {
	st, err := s.db.Start(ctx, checkpoint.ValidateRenew(ttl, leases))
	if err != nil || len(leases) == 0 {
		return nil, err
	}
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

func (s *Store) extend(ctx context.Context, st sqlitestore.Statements, ttl time.Duration, leases string) (map[checkpoint.Lease]struct{}, error) {
	leave, err := s.db.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	rows, err := st[renewSQL].QueryContext(ctx, time.Now().Add(ttl).UnixMicro(), leases)
	extended, err := sqlitestore.Collect(rows, err, scanLease)
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
