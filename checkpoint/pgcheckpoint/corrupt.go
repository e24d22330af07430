package pgcheckpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/pgstate"
)

// A state that has lost a block fails the whole statement that reads it, and what its transaction does. The row
// itself is there.

// A finding is a turn, and why the server cannot read it if it cannot.
type finding struct {
	checkpoint.Checkpoint
	unread error
}

// judge returns a *checkpoint.DamagedError if no store wrote the turn, or the server cannot read it.
func (f *finding) judge(k checkpoint.Key) error {
	if f.unread != nil {
		return checkpoint.DamagedTurn(k, f.Turn, f.unread)
	}
	return intact(f.Checkpoint, k)
}

func find(row pgx.CollectableRow) (f finding, err error) {
	f.Checkpoint, err = scan(row)
	return f, err
}

// page returns the next turns from one downwards. If the server cannot read them all, page reads them one by one, and
// returns the numbers of those that cannot be read.
func (s *Store) page(ctx context.Context, k checkpoint.Key, from, size int) (page []finding, err error) {
	page, err = collect(ctx, s.db, find, s.sql.turns, k.Orchestrator, k.Session, from, size)
	if !pgstate.Corrupt(err) {
		return page, err
	}
	numbers, e := collect(ctx, s.db, pgx.RowTo[int], s.sql.numbers, k.Orchestrator, k.Session, from, size)
	if e != nil {
		return nil, err
	}
	page = nil
	for _, n := range numbers {
		one, err := collect(ctx, s.db, find, s.sql.turns, k.Orchestrator, k.Session, n, 1)
		switch {
		case pgstate.Corrupt(err):
			page = append(page, finding{checkpoint.Checkpoint{Turn: n}, err})
		case err != nil:
			return nil, err
		case len(one) == 0 || one[0].Turn != n:
			return page, nil // pruned since, and with it those before it
		default:
			page = append(page, one...)
		}
	}
	return page, nil
}

// claimUnread claims a session of which the server has said why a turn cannot be read. The lease is good for Delete.
func (s *Store) claimUnread(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest, why error,
) (c checkpoint.Claimed, err error) {
	if s.calls != nil {
		c, err = s.callClaim(ctx, k, r, true)
	} else {
		c, err = s.claimHead(ctx, k, r)
	}
	if err == nil {
		err = checkpoint.Damaged(k, fmt.Errorf("the newest turn, or that of the request: %w", why))
	}
	return c, err
}

// claimHead claims a session without reading its turns.
func (s *Store) claimHead(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (c checkpoint.Claimed, err error) {
	err = s.db.Answered(ctx, func() error {
		var b pgx.Batch
		s.queueClaim(&b, k, r)
		results := s.db.SendBatch(ctx, &b)
		c, _, err = scanHead(results.QueryRow(), k)
		return errors.Join(err, results.Close())
	})
	return c, err
}
