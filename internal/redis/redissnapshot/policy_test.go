package redissnapshot_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// calls calls every method once.
func calls(ctx context.Context, s *redissnapshot.Store) []error {
	r := run("a", "run", fence(1))
	_, began := s.Begin(ctx, r)
	_, adopted := s.Adopt(ctx, r.Key, r.Fence, 9)
	errs := []error{began, adopted, s.Save(ctx, step(r, 1)), s.Delete(ctx, r.Key, r.ID, r.Fence)}
	for _, session := range []string{"", "a"} {
		for _, err := range s.Runs(ctx, snapshot.Query{Key: key(session)}) {
			errs = append(errs, err)
		}
	}
	return errs
}

// A server that evicts is refused until it is configured well. The store writes nothing to it before.
func TestEviction(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	ctx := t.Context()
	s := redissnapshot.New(client, nil)
	for _, policy := range []string{"allkeys-lru", "volatile-ttl"} {
		check(t, client.ConfigSet(ctx, "maxmemory-policy", policy).Err())
		errs := calls(ctx, s)
		for i, err := range errs {
			if !errors.Is(err, redissnapshot.ErrEviction) || !strings.Contains(err.Error(), policy) {
				t.Errorf("%s: call %d: got %v, want %v", policy, i, err, redissnapshot.ErrEviction)
			}
		}
		if n := client.DBSize(ctx).Val(); n != 0 || len(errs) != 6 {
			t.Errorf("%d keys, %d errors", n, len(errs))
		}
	}
	check(t, client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	for _, err := range calls(ctx, s) {
		check(t, err)
	}
	check(t, client.ConfigResetStat(ctx).Err())
	// All calls have a fence that is spent.
	for _, err := range calls(ctx, s) {
		if err != nil && errors.Is(err, redissnapshot.ErrEviction) {
			t.Error(err)
		}
	}
	if n := redistest.Stats(t, client)["cmdstat_info"]; n > 0 {
		t.Errorf("a store that knows its server asks %d times more", n)
	}
}

// A server that does not tell its policy is accepted.
func TestEvictionUntold(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	ctx := t.Context()
	check(t, client.Do(ctx, "ACL", "SETUSER", "bot", "on", ">secret", "~*", "+@all", "-info").Err())
	o := *client.Options()
	o.Username, o.Password = "bot", "secret"
	mute := redis.NewClient(&o)
	defer mute.Close()
	for _, err := range calls(ctx, redissnapshot.New(mute, nil)) {
		check(t, err)
	}
}

// If one node of a cluster evicts, the store refuses the cluster.
func TestEvictionCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	ctx := t.Context()
	var mu sync.Mutex // protects following variable
	var nodes []*redis.Client
	check(t, client.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	}))
	s := redissnapshot.New(client, nil)
	check(t, nodes[0].ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err())
	_, err := s.Begin(ctx, run("a", "run", fence(1)))
	want(t, err, redissnapshot.ErrEviction)
	check(t, nodes[0].ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	begin(t, s, run("a", "run", fence(1)))
}
