package redischeckpoint

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

// Watch is one script. The key expires when process stops being the watcher.
func (s *Store) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (other time.Duration, err error) {
	err = redisstore.Checked(ctx, checkpoint.ValidateWatch(orchestrator, definition, process, d))
	var left int64
	if err == nil {
		var r redisstore.Reply
		keys := []string{s.prefix + redisstore.Tag(orchestrator, definition) + ":watch"}
		if r, err = s.redis.Run(ctx, watchScript, keys, process, ceil(d, time.Millisecond)); err == nil {
			left, err = strconv.ParseInt(r.Value(0), 10, 64)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("redischeckpoint: watch %q: %w", orchestrator, err)
	}
	return time.Duration(left) * time.Millisecond, nil
}
