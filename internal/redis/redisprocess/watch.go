package redisprocess

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

// Watch is one script. The key expires when process stops being the watcher.
func (p *Processes) Watch(
	ctx context.Context, orchestrator, definition, process string, d time.Duration,
) (other time.Duration, err error) {
	err = redisstore.Checked(ctx, lock.ValidateWatch(orchestrator, definition, process, d))
	var left int64
	if err == nil {
		var r redisstore.Reply
		keys := []string{p.prefix + redisstore.Tag(orchestrator, definition) + ":watch"}
		ms := (d + time.Millisecond - 1).Milliseconds()
		if r, err = p.redis.Run(ctx, watchScript, keys, process, ms); err == nil {
			left, err = strconv.ParseInt(r.Value(0), 10, 64)
		}
	}
	if err != nil {
		return 0, fmt.Errorf("redisprocess: watch %q: %w", orchestrator, err)
	}
	return time.Duration(left) * time.Millisecond, nil
}
