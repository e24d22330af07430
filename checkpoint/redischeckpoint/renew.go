package redischeckpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Renew extends each lease by a script of its own, all in one round trip.
func (s *Store) Renew(
	ctx context.Context, ttl time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	if err := redisstore.Checked(ctx, checkpoint.ValidateRenew(ttl, leases)); err != nil {
		return nil, fmt.Errorf("redischeckpoint: renew: %w", err)
	}
	calls := make([]redisstore.Call, len(leases))
	for i, l := range leases {
		args := []any{l.Fence.Epoch, l.Fence.Nonce, ttl.Microseconds(), s.idle, s.unsettled}
		calls[i] = redisstore.Call{Keys: s.sessionKeys(l.Key), Args: args}
	}
	var errs []error
	s.redis.RunAll(ctx, renewScript, calls, func(i int, _ redisstore.Reply, err error) {
		switch {
		case errors.Is(err, lock.ErrFenced):
			lost = append(lost, leases[i])
		case err != nil:
			errs = append(errs,
				fmt.Errorf("redischeckpoint: renew %q: %w", leases[i].Session, damaged(leases[i].Key, err)))
		}
	})
	return lost, errors.Join(errs...)
}
