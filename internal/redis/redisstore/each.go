package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// scanPage is how many keys a server looks at in one step of a scan.
const scanPage = 1000

// Raise runs script on each key of a session that ends with suffix, and returns how often its verdict was OK. It reads
// the names of all keys of all servers, a page at a time, and runs the script on the keys of a page in one round trip.
// A key that moves to another node meanwhile may be left out: after an error, and after slots have moved, call again.
func (r *Runner) Raise(ctx context.Context, script *Lua, suffix string, args ...any) (did int, err error) {
	pattern := r.Prefix + "{*}" + suffix
	defer Wrap(&err, "raise", pattern)
	if err := r.fit(ctx); err != nil {
		return 0, err
	}
	var n atomic.Int64 // servers are asked at once
	err = EachServer(ctx, r.Client, func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, scanPage).Result()
			if err != nil {
				return interrupted(ctx, refusal(err, false))
			}
			calls := make([]Call, len(keys))
			for i, key := range keys {
				calls[i] = Call{Keys: []string{key}, Args: args}
			}
			r.RunAll(ctx, script, calls, func(i int, reply Reply, e error) {
				switch {
				case e != nil && err == nil:
					err = fmt.Errorf("%q: %w", keys[i], e)
				case e == nil && reply.Status == "OK":
					n.Add(1)
				}
			})
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	})
	return int(n.Load()), err
}

// Names returns the names in the keys of one name that end with suffix. It reads the names of all keys of all servers,
// a page at a time. A key that moves to another node meanwhile may be left out, or come twice.
func (r *Runner) Names(ctx context.Context, suffix string) (names []string, err error) {
	before, after := r.Prefix+"{", "}"+suffix
	defer Wrap(&err, "names", before+"*"+after)
	if err := r.fit(ctx); err != nil {
		return nil, err
	}
	var mu sync.Mutex // servers are asked at once
	err = EachServer(ctx, r.Client, func(ctx context.Context, c redis.Cmdable) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, before+"*"+after, scanPage).Result()
			if err != nil {
				return interrupted(ctx, refusal(err, false))
			}
			mu.Lock()
			for _, key := range keys {
				tag := strings.TrimSuffix(strings.TrimPrefix(key, before), after)
				if !strings.Contains(tag, "/") { // which parts names
					names = append(names, unescaper.Replace(tag))
				}
			}
			mu.Unlock()
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
	return names, err
}

// EachServer calls ask for every server of the client, at once.
func EachServer(
	ctx context.Context, client redis.UniversalClient, ask func(context.Context, redis.Cmdable) error,
) error {
	cluster, divided := client.(*redis.ClusterClient)
	if !divided {
		return ask(ctx, client)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return ask(ctx, c) })
}
