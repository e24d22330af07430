package pgcheckpoint

import (
	"cmp"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
)

// If a state has lost a block, the whole statement that reads the state fails, and so does its transaction. The row
// itself can still be found.

// page returns the next turns from one downwards. If the server cannot read them all, page reads them one by one. Of a
// turn that cannot be read it returns the number.
func (s *Store) page(ctx context.Context, k checkpoint.Key, from, size int) (page []finding, err error) {
	page, err = pgstate.Collect(ctx, s.db, scan, 0, s.sql.turns, k.Orchestrator, k.Session, from, size)
	if !pgstate.Corrupt(err) {
		return page, err
	}
	numbers, e := pgstate.Collect(ctx, s.db, pgx.RowTo[int], 0, s.sql.numbers, k.Orchestrator, k.Session, from, size)
	if e != nil {
		return nil, err
	}
	page = nil
	for _, n := range numbers {
		one, err := pgstate.Collect(ctx, s.db, scan, 0, s.sql.turns, k.Orchestrator, k.Session, n, 1)
		switch {
		case pgstate.Corrupt(err):
			page = append(page, finding{Checkpoint: checkpoint.Checkpoint{Turn: n}, unread: err})
		case err != nil:
			return nil, err
		case len(one) == 0 || one[0].Turn != n:
			return page, nil // pruned since, with all older turns
		default:
			page = append(page, one...)
		}
	}
	return page, nil
}

// claimUnread claims a session without reading its turns. why says why the server cannot read a turn. The lease is good
// for Delete.
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
		closed := results.Close()
		return cmp.Or(err, closed)
	})
	return c, err
}
