package redissnapshot

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Adopt takes the run over and returns it, in one script. If there is no run, Adopt keeps the fence.
func (s *Store) Adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	err := redisstore.Checked(ctx, snapshot.ValidateAdopt(k, f, maxAttempts))
	var r snapshot.Run
	if err == nil {
		r, err = s.adopt(ctx, k, f, maxAttempts)
	}
	if err != nil {
		return r, fmt.Errorf("redissnapshot: adopt %q: %w", k.Session, err)
	}
	return r, nil
}

func (s *Store) adopt(ctx context.Context, k snapshot.Key, f lock.Fence, maxAttempts int) (snapshot.Run, error) {
	reply, err := s.redis.Run(ctx, adoptScript, s.runKeys(k), f.Epoch, f.Nonce, maxAttempts, s.remember)
	if err != nil {
		return judge(k, err)
	}
	r, err := decode(k, reply.Values)
	if err == nil && reply.Status == "PARKED" {
		err = snapshot.ErrParked
	}
	return r, err
}
