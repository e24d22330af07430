package redischeckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redisstore/redistest"
	"github.com/holdfast-go/holdfast/lock"
)

// A crowd claims, settles, delivers, deletes and lists a few sessions, all at once and without regard for each other.
type crowd struct {
	ctx   context.Context
	store *redischeckpoint.Store
	ttl   time.Duration // of their leases
}

const crowdSessions = 3

func (c *crowd) anyone() checkpoint.Key { return key(fmt.Sprintf("s%d", rand.IntN(crowdSessions))) }

// act does one thing. What is expected of a crowd is no error.
func (c *crowd) act(nonce string) error {
	k := c.anyone()
	switch rand.IntN(4) {
	case 0:
		return c.store.Delete(c.ctx, k)
	case 1:
		return c.list()
	}
	r := request(nonce, c.ttl)
	r.Steal = true
	claimed, err := c.store.Claim(c.ctx, k, r)
	if err != nil {
		return err
	}
	next := 0
	if claimed.Last != nil {
		next = claimed.Last.Turn + 1
	}
	o := checkpoint.AppendOptions{Keep: 2, Owes: rand.IntN(2) == 0, Release: rand.IntN(2) == 0}
	err = c.store.Append(c.ctx, claimed.Lease, turn(next, nonce), o)
	if err == nil {
		err = c.store.Mark(c.ctx, claimed.Lease, checkpoint.Marks{Delivered: rand.IntN(next + 2)})
	}
	if errors.Is(err, lock.ErrFenced) {
		return nil
	}
	return err
}

func (c *crowd) list() error {
	for _, err := range c.store.Sessions(c.ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: rand.IntN(2) == 0}) {
		if err != nil {
			return err
		}
	}
	return nil
}

// round lets the crowd loose for a number of steps and waits for all.
func (c *crowd) round(n int) error {
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for step := range 6 {
				errs[i] = errors.Join(errs[i], c.act(fmt.Sprintf("n-%d-%d-%d", n, i, step)))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// missing returns what the indexes do not list though the heads say that they should. It owns each session while it
// looks, so that none expires.
func (c *crowd) missing(n int) (missing []string, live int, err error) {
	listed := make(map[bool][]string)
	heads := make(map[string]checkpoint.Claimed)
	for i := range crowdSessions {
		r := request(fmt.Sprintf("look-%d-%d", n, i), time.Hour)
		r.Steal = true
		k := key(fmt.Sprintf("s%d", i))
		if heads[k.Session], err = c.store.Claim(c.ctx, k, r); err != nil {
			return nil, 0, err
		}
	}
	for _, owing := range []bool{false, true} {
		for id, err := range c.store.Sessions(c.ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
			if err != nil {
				return nil, 0, err
			}
			listed[owing] = append(listed[owing], id)
		}
	}
	for id, head := range heads {
		settled := head.Last != nil
		owes := settled && head.Delivered <= head.Last.Turn
		if settled {
			live++
		}
		if settled != slices.Contains(listed[false], id) || owes != slices.Contains(listed[true], id) {
			missing = append(missing, fmt.Sprintf("%s: settled %v, owes %v, listed %v", id, settled, owes, listed))
		}
		if err := c.store.Mark(c.ctx, head.Lease, checkpoint.Marks{Release: true}); err != nil {
			return nil, 0, err
		}
	}
	return missing, live, nil
}

// An index entry may be stale but is never missing, on a cluster where it lives elsewhere than its head.
func TestIndexNeverMisses(t *testing.T) {
	client := redistest.Cluster(t)
	for name, ttl := range map[string]time.Duration{"deleted": 0, "expired": 4 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			store := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: name + ":", TTL: ttl})
			c := &crowd{ctx: t.Context(), store: store, ttl: time.Millisecond}
			live, n := 0, 0
			for start := time.Now(); time.Since(start) < 2*time.Second; n++ {
				check(t, c.round(n))
				missing, found, err := c.missing(n)
				check(t, err)
				if len(missing) > 0 {
					t.Fatalf("round %d: %q", n, missing)
				}
				live += found
			}
			t.Logf("%d rounds, %d sessions found alive", n, live)
			if live == 0 {
				t.Error("no session outlived a round")
			}
			empty(t, c)
		})
	}
}

// empty deletes all sessions and looks for what is left of them.
func empty(t *testing.T, c *crowd) {
	t.Helper()
	for i := range crowdSessions {
		check(t, c.store.Delete(c.ctx, key(fmt.Sprintf("s%d", i))))
	}
	for _, owing := range []bool{false, true} {
		for id, err := range c.store.Sessions(c.ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
			t.Errorf("listed after Delete: %q, %v", id, err)
		}
	}
}
