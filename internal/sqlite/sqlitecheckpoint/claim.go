package sqlitecheckpoint

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/lock"
)

const (
	takeSQL = `
		UPDATE {prefix}sessions SET
			epoch = CASE WHEN nonce = ?4 THEN epoch ELSE max(epoch + 1, ?3) END,
			nonce = ?4,
			owner = ?5,
			lease_until = ?6
		WHERE orchestrator = ?1 AND session = ?2
			AND (nonce = ?4 OR epoch = ?8 AND nonce = ?9 OR ?9 = '' AND lease_until <= ?7)
		RETURNING epoch, born, turn, summarized, coalesce(owed, turn + 1), failed`

	// bearSQL is apart from takeSQL. SQLite checks each column that an UPDATE names, even if its value stays. But a
	// claim must still work on a damaged head, so that the session can be deleted.
	bearSQL = `
		UPDATE {prefix}sessions SET born = ?3
		WHERE orchestrator = ?1 AND session = ?2 AND turn < 0`

	// waitSQL changes nothing. It makes its transaction wait until the transaction may write.
	waitSQL = `UPDATE {prefix}sessions SET epoch = epoch WHERE orchestrator = ?1 AND session = ?2 AND epoch < 0`

	createSQL = `
		INSERT INTO {prefix}sessions (orchestrator, session, epoch, nonce, owner, lease_until, born)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?3
		WHERE NOT EXISTS (SELECT 1 FROM {prefix}turns WHERE orchestrator = ?1 AND session = ?2)
		ON CONFLICT DO NOTHING
		RETURNING epoch, born, turn, summarized, turn + 1, failed`

	headlessSQL = `
		SELECT EXISTS (SELECT 1 FROM {prefix}turns WHERE orchestrator = ?1 AND session = ?2)
			AND NOT EXISTS (SELECT 1 FROM {prefix}sessions WHERE orchestrator = ?1 AND session = ?2)`

	answeredSQL = `
		SELECT turn, state, payload, route, signature, version, run_id, request_id, saved_at
		FROM {prefix}turns
		WHERE orchestrator = ?1 AND session = ?2 AND request_id = ?3 AND turn <= ?4
		ORDER BY turn DESC
		LIMIT 1`

	ownerSQL = `
		SELECT epoch, nonce, owner, lease_until FROM {prefix}sessions
		WHERE orchestrator = ?1 AND session = ?2`
)

// Claim takes the lease and reads in one transaction, so that it returns the session as it was when the lease was
// taken. If the claim is refused, Claim reads who owns the session.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.claim(ctx, k, r)
	if err != nil {
		if !damaged(err) {
			c.Lease = checkpoint.Lease{}
		}
		return checkpoint.Claimed{Lease: c.Lease},
			fmt.Errorf("sqlitecheckpoint: claim %q: %w", k.Session, s.db.Explain(ctx, err))
	}
	return c, nil
}

// damaged reports whether one session is damaged. An ErrDamaged that is no DamagedError concerns the whole file.
func damaged(err error) bool {
	_, one := errors.AsType[*checkpoint.DamagedError](err)
	return one
}

func (s *Store) claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	st, err := s.db.Start(ctx, k.Validate(), r.Validate())
	if err != nil {
		return c, err
	}
	g, err := s.take(ctx, st, k, r)
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: g.epoch, Nonce: r.Nonce}}
	if errors.Is(err, errHead) {
		err = checkpoint.Damaged(k, err)
	}
	if err != nil {
		return c, err
	}
	c.Born, c.Summarized, c.Delivered, c.Failed = g.born, g.summarized, g.delivered, g.failed
	if err := c.Intact(g.turn); err != nil {
		return c, err
	}
	c.Last, c.Answered = g.last, g.answered
	return c, g.unread
}

// A grant is a session that the caller now owns, with the turns that its owner has to know.
type grant struct {
	head
	last, answered *checkpoint.Checkpoint
	// unread says that a turn is damaged. The caller owns the session all the same.
	unread error
}

// read reads the newest turn, and the turn that answered the request.
func (g *grant) read(
	ctx context.Context, tx *sql.Tx, st sqlitestore.Statements, k checkpoint.Key, request string,
) (err error) {
	if g.turn < 0 {
		return nil
	}
	if g.last, err = one(ctx, tx.StmtContext(ctx, st[turnsSQL]), k, k.Orchestrator, k.Session, g.turn, 1); err != nil {
		return err
	}
	if g.last == nil || g.last.Turn != g.turn {
		return checkpoint.DamagedTurn(k, g.turn, errors.New("it is missing, and it is the newest"))
	}
	switch request {
	case "":
	case g.last.RequestID:
		g.answered = clone(g.last)
	default:
		answered := tx.StmtContext(ctx, st[answeredSQL])
		g.answered, err = one(ctx, answered, k, k.Orchestrator, k.Session, request, g.turn)
	}
	return err
}

// take makes the caller the owner, or returns a *checkpoint.HeldError. If the session was given back, created or
// deleted between two statements, take starts again.
func (s *Store) take(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest,
) (grant, error) {
	for {
		taken, err := s.update(ctx, st, k, r)
		if err == nil && len(taken) == 0 {
			taken, err = s.createOrRefuse(ctx, st, k, r)
		}
		if err != nil {
			return grant{head: head{epoch: time.Now().UnixMicro()}}, err
		}
		if len(taken) > 0 {
			return taken[0], nil
		}
	}
}

// createOrRefuse returns no grant if the claim has to be tried again.
func (s *Store) createOrRefuse(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest,
) ([]grant, error) {
	in, err := ownerOf(ctx, st[ownerSQL], k)
	now := time.Now().UnixMicro()
	switch {
	case err != nil:
		return nil, err
	case in.refuses(r, now):
		return nil, in.held(now)
	case in != nil:
		return nil, nil
	}
	taken, err := s.create(ctx, st, k, r)
	if err == nil && len(taken) == 0 {
		err = headless(ctx, st, k)
	}
	return taken, err
}

// headless returns a *checkpoint.DamagedError if turns of the session are kept without a head.
func headless(ctx context.Context, st sqlitestore.Statements, k checkpoint.Key) error {
	var headless bool
	err := st[headlessSQL].QueryRowContext(ctx, k.Orchestrator, k.Session).Scan(&headless)
	if err == nil && headless {
		err = checkpoint.Damaged(k, checkpoint.ErrNoHead)
	}
	return err
}

// update takes a session that exists, and reads its turns. SQLite commits nothing after it has met a page that it
// cannot read. Then update takes the session without the turns.
func (s *Store) update(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest,
) ([]grant, error) {
	taken, err := s.updateHead(ctx, st, k, r, func(tx *sql.Tx, g *grant) error {
		return g.read(ctx, tx, st, k, r.RequestID)
	})
	if sqlitestore.Corrupt(err) {
		damage := checkpoint.Damaged(k, err)
		taken, err = s.updateHead(ctx, st, k, r, func(*sql.Tx, *grant) error { return damage })
	}
	return taken, err
}

// updateHead takes a session that exists. read reads its turns. If read returns an error that is no DamagedError,
// updateHead changes nothing.
func (s *Store) updateHead(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest,
	read func(*sql.Tx, *grant) error,
) (taken []grant, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		rows, err := tx.StmtContext(ctx, st[takeSQL]).QueryContext(ctx, s.claimArgs(k, r)...)
		heads, err := sqlitestore.Collect(rows, err, scanHead)
		for _, h := range heads {
			if r.Born > 0 && h.turn < 0 {
				h.born = r.Born
				if _, err := tx.StmtContext(ctx, st[bearSQL]).
					ExecContext(ctx, k.Orchestrator, k.Session, r.Born); err != nil {
					return err
				}
			}
			g := grant{head: h}
			g.unread = read(tx, &g)
			if g.unread != nil && !damaged(g.unread) {
				return g.unread
			}
			taken = append(taken, g)
		}
		return err
	})
	return taken, err
}

// create makes the session if there is still none. It reads the clock when no other process can write. A process that
// wrote before may have deleted the session, whose epochs must not come back.
func (s *Store) create(
	ctx context.Context, st sqlitestore.Statements, k checkpoint.Key, r checkpoint.ClaimRequest,
) (taken []grant, err error) {
	err = s.db.Write(ctx, func(tx *sql.Tx) error {
		if _, err := tx.StmtContext(ctx, st[waitSQL]).ExecContext(ctx, k.Orchestrator, k.Session); err != nil {
			return err
		}
		rows, err := tx.StmtContext(ctx, st[createSQL]).QueryContext(ctx, s.claimArgs(k, r)[:createArgs]...)
		heads, err := sqlitestore.Collect(rows, err, scanHead)
		for _, h := range heads {
			taken = append(taken, grant{head: h})
		}
		return err
	})
	return taken, err
}

// createArgs is how many of claimArgs createSQL takes. A session that is created has no former owner.
const createArgs = 6

// claimArgs reads the clock. The caller is the writer.
func (s *Store) claimArgs(k checkpoint.Key, r checkpoint.ClaimRequest) []any {
	now := time.Now()
	s.epoch = max(s.epoch+1, now.UnixMicro())
	return []any{
		k.Orchestrator, k.Session, s.epoch, r.Nonce, r.Owner, now.Add(r.TTL).UnixMicro(),
		now.UnixMicro(), r.From.Epoch, r.From.Nonce,
	}
}

// A head holds the columns that a claim reads of the row of the session.
type head struct {
	epoch, born                 int64
	turn, summarized, delivered int
	failed                      int
}

// errHead says that a column of a head has a type that the store's tables do not take.
var errHead = errors.New("head")

// scanHead reads a row.
func scanHead(rows *sql.Rows) (h head, err error) {
	if err := rows.Scan(&h.epoch, &h.born, &h.turn, &h.summarized, &h.delivered, &h.failed); err != nil {
		return h, fmt.Errorf("%w: %w", errHead, err)
	}
	return h, nil
}

// An owner is the last process that claimed a session. Once it has released the session, the nonce is "".
type owner struct {
	fence      lock.Fence
	name       string
	leaseUntil int64
}

// ownerOf returns nil if there is no such session.
func ownerOf(ctx context.Context, stmt *sql.Stmt, k checkpoint.Key) (*owner, error) {
	rows, err := stmt.QueryContext(ctx, k.Orchestrator, k.Session)
	found, err := sqlitestore.Collect(rows, err, scanOwner)
	switch {
	case errors.Is(err, errHead):
		return nil, checkpoint.Damaged(k, err)
	case err != nil || len(found) == 0:
		return nil, err
	}
	return &found[0], nil
}

func scanOwner(rows *sql.Rows) (o owner, err error) {
	if err := rows.Scan(&o.fence.Epoch, &o.fence.Nonce, &o.name, &o.leaseUntil); err != nil {
		return o, fmt.Errorf("%w: %w", errHead, err)
	}
	return o, nil
}

// refuses reports whether a claim with r is refused at now. o is nil if there is no such session.
func (o *owner) refuses(r checkpoint.ClaimRequest, now int64) bool {
	switch {
	case o == nil:
		return r.From != lock.Fence{}
	case r.Nonce == o.fence.Nonce, r.From == o.fence:
		return false
	}
	return r.From != lock.Fence{} || o.leaseUntil > now
}

// held returns the error that names the owner. If the session has no owner at now, the error names none.
func (o *owner) held(now int64) *checkpoint.HeldError {
	if o == nil || o.leaseUntil <= now {
		return new(checkpoint.HeldError)
	}
	return &checkpoint.HeldError{Owner: o.name, Fence: o.fence}
}
