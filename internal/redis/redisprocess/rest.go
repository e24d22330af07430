package redisprocess

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Rest is one script.
func (p *Processes) Rest(ctx context.Context, process string) error {
	err := redisstore.Checked(ctx, lock.ValidateRest(process))
	if err == nil {
		_, err = p.redis.Run(ctx, restScript, p.beatKeys(), process)
	}
	if err != nil {
		return fmt.Errorf("redisprocess: rest: %w", err)
	}
	return nil
}
