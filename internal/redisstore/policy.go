package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrEviction refuses a server that deletes keys when its memory is full. The message names the setting to change.
var ErrEviction = errors.New("the server may evict what is stored")

const onlyPolicy = "noeviction"

// lookEvery is how long a store relies on what a server has said of its policy. A person may change it at any time, and
// a failover may bring another server.
const lookEvery = time.Minute

// fit asks every server for its policy, and refuses a server that evicts keys: at first, then once a minute, and on
// each call while a server evicts. If it is time to ask again, one call asks, and the others go on meanwhile. fit
// accepts a server that does not answer: INFO may be forbidden, and if the server is down, the script will fail.
func (r *Runner) fit(ctx context.Context) error {
	looked, now := r.looked.Load(), r.clock()
	if looked != 0 && (now-looked < int64(lookEvery) || !r.looked.CompareAndSwap(looked, now)) {
		return nil
	}
	err := r.eachServer(ctx, askPolicy)
	if errors.Is(err, ErrEviction) {
		r.looked.Store(0)
		return err
	}
	if _, said := errors.AsType[redis.Error](err); err == nil || said {
		looked = now
	}
	r.looked.Store(looked) // if nobody answered, the next call asks
	return nil
}

// clock returns the time since the program began, in nanoseconds. It is never 0.
func (r *Runner) clock() int64 {
	if r.now != nil {
		return r.now()
	}
	return int64(time.Since(begin)) + 1
}

var begin = time.Now()

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
