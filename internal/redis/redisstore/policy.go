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

const (
	// lookEvery is how long a store relies on what a server has said of its policy, or a cluster with a server that
	// does not answer. A person may change the policy at any time, and a failover may bring another server.
	lookEvery = time.Minute

	// policyPatience is how long a server of a cluster holds the other servers up.
	policyPatience = time.Second
)

// fit asks every server for its policy, and refuses a server that evicts keys: at first, then once a minute, and on
// each call while a server evicts. If it is time to ask again, one call asks, and the others go on meanwhile. fit
// accepts a server that does not answer: INFO may be forbidden, and if the server is down, the script will fail.
func (r *Runner) fit(ctx context.Context) error {
	looked, now := r.looked.Load(), r.clock()
	if looked != 0 && (now-looked < int64(lookEvery) || !r.looked.CompareAndSwap(looked, now)) {
		return nil
	}
	cluster, divided := r.Client.(*redis.ClusterClient)
	var err error
	if divided {
		err = askAll(ctx, cluster)
	} else {
		err = AskPolicy(ctx, r.Client)
	}
	if errors.Is(err, ErrEviction) {
		r.looked.Store(0)
		return err
	}
	if _, said := errors.AsType[redis.Error](err); err == nil || said || divided && ctx.Err() == nil {
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

// errSilent says that a server of a cluster has not answered yet. The other servers are good.
var errSilent = errors.New("a server does not answer")

// askAll asks all servers of a cluster at once. The timeouts of the client end what is still asked after
// policyPatience.
func askAll(ctx context.Context, cluster *redis.ClusterClient) error {
	evicts, done := make(chan error, 1), make(chan error, 1)
	go func() {
		done <- cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
			err := AskPolicy(ctx, c)
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
		select {
		case evicted := <-evicts: // another server may have failed at the same time
			return evicted
		default:
			return err
		}
	case <-patience.C:
	case <-ctx.Done():
	}
	return errSilent
}

// AskPolicy returns an ErrEviction if a server evicts keys, and another error if it does not say.
func AskPolicy(ctx context.Context, c redis.Cmdable) error {
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
