package redischeckpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Renew extends each lease by a script of its own, all in one round trip to each node.
func (s *Store) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateRenew(ttl, leases)); err != nil {
		return nil, fmt.Errorf("redis: renew: %w", err)
	}
	calls := make([]redisstore.Call, len(leases))
	for i, l := range leases {
		args := []any{l.Fence.Epoch, l.Fence.Nonce, ttl.Microseconds(), s.idle, s.unsettled}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(l.Key), Args: args}
	}
	var unknown []checkpoint.Lease
	var first error
	s.redis.RunAll(ctx, renewScript, calls, func(i int, _ redisstore.Reply, err error) {
		switch {
		case errors.Is(err, lock.ErrFenced):
			lost = append(lost, leases[i])
		case err != nil:
			unknown = append(unknown, leases[i])
			first = cmp.Or(first, damaged(leases[i].Key, err))
		}
	})
	if first != nil {
		return lost, &checkpoint.RenewError{Unknown: unknown, Err: fmt.Errorf("redis: renew: %w", first)}
	}
	return lost, nil
}
