package redischeckpoint

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Rest is one script.
func (s *Store) Rest(ctx context.Context, process string) error {
	err := redisstore.Checked(ctx, checkpoint.ValidateRest(process))
	if err == nil {
		_, err = s.redis.Run(ctx, restScript, s.beatKeys(), process)
	}
	if err != nil {
		return fmt.Errorf("redischeckpoint: rest: %w", err)
	}
	return nil
}
