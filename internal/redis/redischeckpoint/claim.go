package redischeckpoint

import (
	"context"
	"fmt"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Claim makes the caller the owner, and returns the data of the session, in one script.
func (s *Store) Claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	c, err := s.claim(ctx, k, r)
	if err != nil {
		return c, fmt.Errorf("redischeckpoint: claim %q: %w", k.Session, err)
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	if err := redisstore.Checked(ctx, k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	s.sweeper.serves(k.Orchestrator)
	from := ""
	if r.From != (lock.Fence{}) {
		from = strconv.FormatInt(r.From.Epoch, 10)
	}
	reply, err := s.redis.Run(ctx, claimScript, s.sessionKeys(k), r.Nonce, r.Owner, r.TTL.Microseconds(), r.RequestID,
		from, r.From.Nonce, s.idle, s.unsettled, r.Born)
	switch {
	case err != nil:
		return damagedClaim(k, r.Nonce, err)
	case reply.Status == "HELD":
		return checkpoint.Claimed{}, held(reply.Values)
	}
	c, err := claimed(k, r.Nonce, reply.Values)
	if err != nil {
		c = checkpoint.Claimed{Lease: c.Lease}
	}
	return c, err
}

// held returns the error that names the owner, from the values of the claim script.
func held(values []string) error {
	if len(values) != 3 {
		return fmt.Errorf("%w: reply of %d values", checkpoint.ErrDamaged, len(values))
	}
	epoch, err := strconv.ParseInt(values[1], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: head: %w", checkpoint.ErrDamaged, err)
	}
	return &checkpoint.HeldError{Owner: values[0], Fence: lock.Fence{Epoch: epoch, Nonce: values[2]}}
}

// claimed reads the values of the claim script.
func claimed(k checkpoint.Key, nonce string, values []string) (c checkpoint.Claimed, err error) {
	const numbers = 5
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Nonce: nonce}}
	if len(values) < numbers {
		return c, checkpoint.Damaged(k, fmt.Errorf("reply of %d values", len(values)))
	}
	var n [numbers]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(values[i], 10, 64); err != nil {
			return c, checkpoint.Damaged(k, fmt.Errorf("head: %w", err))
		}
	}
	c.Fence.Epoch = n[0]
	var found []*checkpoint.Checkpoint
	for _, row := range rows(values[numbers:]) {
		cp, err := row.checkpoint(k)
		if err != nil {
			return c, err
		}
		found = append(found, &cp)
	}
	c = checkpoint.Claimed{
		Lease: checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: n[0], Nonce: nonce}},
		Born:  n[1], Summarized: int(n[2]), Delivered: int(n[3]), Failed: int(n[4]),
	}
	if len(found) > 0 {
		c.Last = found[0]
	}
	if len(found) > 1 {
		c.Answered = found[1]
	}
	return c, nil
}
