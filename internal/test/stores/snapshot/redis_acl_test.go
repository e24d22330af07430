package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A user with the documented rules passes both suites.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	client := redistest.As(t, admin, redistest.DocumentedRules(t))
	runs, n := numberedRedis(), 0
	turns := func(client redis.UniversalClient, ttl time.Duration) *redischeckpoint.Store {
		n++
		o := redischeckpoint.Options{Prefix: fmt.Sprintf("holdfast:%d:", n), TTL: ttl}
		return redischeckpoint.New(client, &o)
	}
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return turns(client, time.Hour) })
	snapshottest.Run(t, func(*testing.T) snapshot.Store { return runs(client) })
	locktest.RunWatcher(t, func(*testing.T) lock.Watcher { return turns(client, 0) })
	locktest.RunBeater(t, func(*testing.T) lock.Beater { return turns(client, 0) })
	check(t, everything(t.Context(), client))
	_, err := redissnapshot.New(client, nil).Raise(t.Context(), time.Now())
	want(t, err, snapshot.ErrRefused)
	operator := redistest.As(t, admin, append(redistest.DocumentedRules(t), "+scan"))
	checkpointtest.RunRaiser(t, func(*testing.T) checkpointtest.RaisingStore { return turns(operator, 0) })
	snapshottest.RunRaiser(t, func(*testing.T) snapshottest.RaisingStore { return runs(operator) })
}

// Each command of the documented rules is needed, except INFO. Without INFO the store does not learn of an eviction
// policy.
func TestACLNeedsAll(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	rules := redistest.DocumentedRules(t)
	for i, rule := range rules {
		if rule[0] != '+' || rule == "+info" || strings.HasPrefix(rule, "+cluster") || rule == "+command" ||
			rule == "+asking" {
			continue
		}
		check(t, admin.FlushAll(t.Context()).Err())
		check(t, admin.ScriptFlush(t.Context()).Err())
		err := everything(t.Context(), redistest.As(t, admin, slices.Delete(slices.Clone(rules), i, i+1)))
		if err == nil {
			t.Errorf("%s is not needed", rule)
		}
		if errors.Is(err, checkpoint.ErrDamaged) || errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}

func TestACLCluster(t *testing.T) {
	t.Parallel()
	nodes, admin := redistest.Nodes(t)
	args := []any{"ACL", "SETUSER", "bot", "reset"}
	for _, rule := range redistest.DocumentedRules(t) {
		args = append(args, rule)
	}
	check(t, admin.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.Do(ctx, args...).Err()
	}))
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs, Username: "bot", Password: "secret"})
	defer client.Close()
	check(t, everything(t.Context(), client))
}

// everything makes both stores use each command that they have.
func everything(ctx context.Context, client redis.UniversalClient) error {
	for _, ttl := range []time.Duration{0, time.Hour} {
		if err := settles(ctx, redischeckpoint.New(client, &redischeckpoint.Options{TTL: ttl})); err != nil {
			return err
		}
	}
	s, other := redissnapshot.New(client, nil), redissnapshot.New(client, nil)
	r := run("a")
	r.Parts = parts("x", 1)
	_, err := s.Begin(ctx, r)
	if err = errors.Join(err, s.Save(ctx, next(r)), remove(ctx, s, r)); err != nil {
		return err
	}
	if _, err := list(ctx, other, ""); err != nil { // finds the entry that Delete has left
		return err
	}
	_, err = s.Begin(ctx, runAs("a", "next", 2))
	return errors.Join(err, take(ctx, s, "a", 3))
}

func settles(ctx context.Context, s *redischeckpoint.Store) error {
	k := key("a")
	c, err := s.Claim(ctx, k, checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour, RequestID: "request"})
	if err != nil {
		return err
	}
	for n := range 2 {
		cp := checkpoint.Checkpoint{Turn: n, RunID: fmt.Sprint("r", n), RequestID: "request", State: []byte(`{}`)}
		if err := s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: 1, Owes: true}); err != nil {
			return err
		}
	}
	if _, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease}); err != nil {
		return err
	}
	if _, err := s.Held(ctx, k.Orchestrator, []string{k.Session}); err != nil {
		return err
	}
	if err := s.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: 2}); err != nil {
		return err
	}
	if _, err := s.Beat(ctx, "a"); err != nil {
		return err
	}
	if err := s.Rest(ctx, "a"); err != nil {
		return err
	}
	for _, d := range []time.Duration{time.Hour, 0} { // another process asks, and then the watcher leaves
		if _, err := s.Watch(ctx, k.Orchestrator, "v1", "a", d); err != nil {
			return err
		}
		if _, err := s.Watch(ctx, k.Orchestrator, "v1", "b", time.Minute); err != nil {
			return err
		}
	}
	for _, owing := range []bool{true, false} {
		for _, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: k.Orchestrator, Owing: owing}) {
			if err != nil {
				return err
			}
		}
	}
	if err := s.Delete(ctx, c.Lease); err != nil {
		return err
	}
	for _, err := range s.Turns(ctx, k, checkpoint.Newest) { // of a session that is not there
		return err
	}
	return nil
}
