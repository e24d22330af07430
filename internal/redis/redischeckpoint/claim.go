package redischeckpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Claim makes the caller the owner, and returns the data of the session, in one script.
func (s *Store) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (_ checkpoint.Claimed, err error) {
	defer redisstore.Wrap(&err, "claim", k.Session)
	if err := redisstore.Checked(ctx, k.Validate(), r.Validate()); err != nil {
		return checkpoint.Claimed{}, err
	}
	s.sweeper.serves(k.Orchestrator)
	s.labels.serves(k.Orchestrator)
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
		return checkpoint.Claimed{}, held(reply)
	}
	return claimed(k, r.Nonce, reply)
}

// damagedClaim returns the lease under which a session may be deleted, if err says that the session is damaged.
func damagedClaim(k checkpoint.Key, nonce string, err error) (c checkpoint.Claimed, _ error) {
	fault, ok := errors.AsType[*redisstore.Fault](err)
	if !ok {
		return c, err
	}
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: time.Now().UnixMicro(), Nonce: nonce}}
	if len(fault.Told) > 0 {
		if epoch, err := strconv.ParseInt(fault.Told[0], 10, 64); err == nil {
			c.Fence.Epoch = epoch
		}
	}
	return c, checkpoint.Damaged(k, fault)
}

// held returns the error that names the owner: the reply has the owner, and the fence.
func held(r redisstore.Reply) error {
	epoch, err := strconv.ParseInt(r.Value(1), 10, 64)
	if err != nil {
		return fmt.Errorf("%w: head: %w", checkpoint.ErrDamaged, err)
	}
	return &checkpoint.HeldError{Owner: r.Value(0), Fence: lock.Fence{Epoch: epoch, Nonce: r.Value(2)}}
}

// claimed reads the reply of the claim script. If the session is damaged, only the lease is told.
func claimed(k checkpoint.Key, nonce string, r redisstore.Reply) (c checkpoint.Claimed, err error) {
	var n [5]int64
	err = r.Numbers(n[:])
	c.Lease = checkpoint.Lease{Key: k, Fence: lock.Fence{Epoch: n[0], Nonce: nonce}}
	if err != nil {
		return c, checkpoint.Damaged(k, err)
	}
	var found []*checkpoint.Checkpoint
	for _, row := range rows(r.Values[len(n):]) {
		cp, err := row.checkpoint(k)
		if err != nil {
			return c, err
		}
		found = append(found, &cp)
	}
	c.Born, c.Summarized, c.Delivered, c.Failed = n[1], int(n[2]), int(n[3]), int(n[4])
	if len(found) > 0 {
		c.Last = found[0]
	}
	if len(found) > 1 {
		c.Answered = found[1]
	}
	return c, nil
}
