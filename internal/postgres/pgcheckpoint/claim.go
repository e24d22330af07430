package pgcheckpoint

import (
	"cmp"
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/lock"
)

// Claim claims and reads in one pipeline. If the session is new, Claim creates it in a second round trip.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := errors.Join(k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	for {
		c, err := s.claim(ctx, k, r)
		if pgstate.Corrupt(err) {
			c, err = s.claimUnread(ctx, k, r, err)
		}
		// By a call, no row means that r.From is not the owner.
		if errors.Is(err, pgx.ErrNoRows) && r.From == (lock.Fence{}) {
			c, err = s.create(ctx, k, r)
			if errors.Is(err, pgx.ErrNoRows) {
				if c, err = s.headless(ctx, k, r); err == nil {
					continue // another claim created it first
				}
			}
		}
		switch {
		case err == nil:
			return c, nil
		case errors.Is(err, checkpoint.ErrDamaged):
			return checkpoint.Claimed{Lease: c.Lease}, s.error(ctx, "claim", k, err)
		case errors.Is(err, errOvertaken):
			continue
		case errors.Is(err, pgx.ErrNoRows):
			err = new(checkpoint.HeldError)
		}
		return checkpoint.Claimed{}, s.error(ctx, "claim", k, err)
	}
}

// errOvertaken says that a claim was refused because of a change while it waited. The owner of the session is unknown
// until the claim is sent again.
var errOvertaken = errors.New("claim was overtaken")

// claim claims a session that exists. If there is no such session, claim returns pgx.ErrNoRows.
func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if s.calls != nil {
		return s.callClaim(ctx, k, r, false)
	}
	return s.sendClaim(ctx, k, r, func(b *pgx.Batch) { s.queueClaim(b, k, r) })
}

func (s *Store) queueClaim(b *pgx.Batch, k checkpoint.Key, r checkpoint.ClaimRequest) {
	b.Queue(s.sql.claim, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds(),
		r.From.Epoch, r.From.Nonce, r.Born)
}

// headless returns a lease for Delete. If turns of the session are kept without a head, headless also returns a
// *checkpoint.DamagedError.
func (s *Store) headless(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: r.Nonce}}
	headless, err := pgstate.One(ctx, s.db, func(row pgx.CollectableRow) (headless bool, err error) {
		err = row.Scan(&headless, &c.Fence.Epoch)
		return headless, err
	}, s.sql.headless, k.Orchestrator, k.Session)
	if err == nil && headless {
		err = checkpoint.Damaged(k, checkpoint.ErrNoHead)
	}
	return c, err
}

// create claims a session that did not exist. If the session exists by now, and is owned, create returns pgx.ErrNoRows.
func (s *Store) create(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	return s.sendClaim(ctx, k, r, func(b *pgx.Batch) {
		b.Queue(s.sql.guard, k.Orchestrator, k.Session)
		b.Queue(s.sql.create, k.Orchestrator, k.Session, r.Nonce, r.Owner, r.TTL.Microseconds())
	})
}

// sendClaim sends the statements that queue adds and, in the same pipeline, the statements that read for the new owner.
// The last statement of queue claims.
func (s *Store) sendClaim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest, queue func(*pgx.Batch),
) (c checkpoint.Claimed, err error) {
	err = s.db.Answered(ctx, func() error {
		var b pgx.Batch
		queue(&b)
		before := b.Len() - 1
		b.Queue(s.sql.newest, k.Orchestrator, k.Session, r.Nonce)
		if r.RequestID != "" {
			b.Queue(s.sql.answered, k.Orchestrator, k.Session, r.Nonce, r.RequestID)
		}
		results := s.db.SendBatch(ctx, &b)
		for err = nil; err == nil && before > 0; before-- {
			_, err = results.Exec()
		}
		if err == nil {
			c, err = readClaim(results, k, r)
		}
		closed := results.Close()
		return cmp.Or(err, closed)
	})
	return c, err
}

func readClaim(
	results pgx.BatchResults, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	c, last, err := scanHead(results.QueryRow(), k)
	if err != nil {
		return c, err
	}
	if err := c.Intact(last); err != nil {
		return c, err
	}
	rows, err := results.Query()
	if c.Last, err = scanOne(k, rows, err); err != nil {
		return c, err
	}
	if last >= 0 && c.Last == nil {
		return c, checkpoint.DamagedTurn(k, last, errors.New("it is missing, and it is the newest"))
	}
	if r.RequestID != "" {
		rows, err = results.Query()
		c.Answered, err = scanOne(k, rows, err)
	}
	return c, err
}

// scanHead reads the head after a claim, and the number of the newest turn. Its error says why the claim was refused.
func scanHead(row pgx.Row, k checkpoint.Key) (c checkpoint.Claimed, last int, err error) {
	c.Key = k
	var verdict, owner string
	err = row.Scan(&verdict, &c.Fence.Epoch, &c.Fence.Nonce, &owner,
		&c.Born, &last, &c.Summarized, &c.Delivered, &c.Failed)
	if err == nil {
		err = refusal(verdict, owner, c.Fence)
	}
	return c, last, err
}

// refusal returns why a claim was not granted, or nil if it was.
func refusal(verdict, owner string, f lock.Fence) error {
	switch verdict {
	case "granted":
		return nil
	case "held":
		return &checkpoint.HeldError{Owner: owner, Fence: f}
	case "free":
		return new(checkpoint.HeldError)
	}
	return errOvertaken
}
