package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrEviction refuses a server that deletes keys when its memory is full. The message names the setting to change.
var ErrEviction = errors.New("the server may evict what is stored")

const onlyPolicy = "noeviction"

// fit asks every server once for its policy, and refuses a server that evicts keys. fit accepts a server that does not
// answer: INFO may be forbidden, and if the server is down, the script will fail.
func (r *Runner) fit(ctx context.Context) error {
	if r.known.Load() {
		return nil
	}
	err := r.eachServer(ctx, askPolicy)
	if errors.Is(err, ErrEviction) {
		return err
	}
	if _, said := errors.AsType[redis.Error](err); err == nil || said {
		r.known.Store(true)
	}
	return nil
}

func (r *Runner) eachServer(ctx context.Context, ask func(context.Context, redis.Cmdable) error) error {
	cluster, ok := r.Client.(*redis.ClusterClient)
	if !ok {
		return ask(ctx, r.Client)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return ask(ctx, c) })
}

func askPolicy(ctx context.Context, c redis.Cmdable) error {
	info, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return err
	}
	for line := range strings.Lines(info) {
		policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:")
		if ok && policy != onlyPolicy {
			return fmt.Errorf("%w: maxmemory-policy is %s: set it to %s", ErrEviction, policy, onlyPolicy)
		}
	}
	return nil
}
