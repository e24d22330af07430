package redissnapshot

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Adopt takes the run over and returns it, in one script. If there is no run, Adopt keeps the fence.
func (s *Store) Adopt(
	ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int,
) (r snapshot.Run, err error) {
	defer redisstore.Wrap(&err, "adopt the run of", k.Session)
	if err := redisstore.Checked(ctx, snapshot.ValidateAdopt(k, f, maxAttempts)); err != nil {
		return r, err
	}
	reply, err := s.redis.Run(ctx, adoptScript, s.runKeys(k), f.Epoch, f.Nonce, maxAttempts, s.remember)
	if err != nil {
		return judge(k, err)
	}
	r, err = decode(k, reply.Values)
	if err == nil && reply.Status == "PARKED" {
		err = snapshot.ErrParked
	}
	return r, err
}
