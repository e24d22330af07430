package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrEviction refuses a server that deletes keys when its memory is full. The message names the setting to change.
var ErrEviction = errors.New("the server may evict what is stored")

const onlyPolicy = "noeviction"

// A server of a cluster that does not answer is asked again after silentFor. Meanwhile it holds nothing up.
const (
	policyPatience = time.Second
	silentFor      = time.Minute
)

// fit asks every server once for its policy, and refuses a server that evicts keys. fit accepts a server that does not
// answer: INFO may be forbidden, and if the server is down, the script will fail.
func (r *Runner) fit(ctx context.Context) error {
	now := time.Now()
	if now.UnixNano() < r.asks.Load() {
		return nil
	}
	cluster, divided := r.Client.(*redis.ClusterClient)
	var err error
	if divided {
		err = askAll(ctx, cluster)
	} else {
		err = askPolicy(ctx, r.Client)
	}
	if errors.Is(err, ErrEviction) {
		return err
	}
	switch _, said := errors.AsType[redis.Error](err); {
	case err == nil || said:
		r.asks.Store(math.MaxInt64)
	case divided:
		r.asks.Store(now.Add(silentFor).UnixNano())
	}
	return nil
}

// errSilent says that a server of a cluster has not answered yet. The other servers are good.
var errSilent = errors.New("a server does not answer")

// askAll asks all servers of a cluster at once.
func askAll(ctx context.Context, cluster *redis.ClusterClient) error {
	evicts, done := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			err := askPolicy(ctx, c)
			if errors.Is(err, ErrEviction) {
				select {
				case evicts <- err:
				default:
				}
			}
			return err
		})
	}()
	patience := time.NewTimer(policyPatience)
	defer patience.Stop()
	select {
	case err := <-evicts:
		return err
	case err := <-done:
		return err
	case <-patience.C:
	case <-ctx.Done():
	}
	return errSilent
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
