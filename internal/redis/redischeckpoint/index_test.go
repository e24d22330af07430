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
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
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

// act does one thing. Refusals that a crowd must expect are no error.
func (c *crowd) act(nonce string) error {
	k := c.anyone()
	what := rand.IntN(4)
	if what == 0 {
		return c.list()
	}
	claimed, err := c.take(k, request(nonce, c.ttl))
	if err == nil && what == 1 {
		err = c.store.Delete(c.ctx, claimed.Lease)
	} else if err == nil {
		err = c.settle(claimed)
	}
	if errors.Is(err, lock.ErrFenced) {
		return nil
	}
	return err
}

// take claims a session, also from another owner.
func (c *crowd) take(k checkpoint.Key, r checkpoint.ClaimRequest) (checkpoint.Claimed, error) {
	for {
		claimed, err := c.store.Claim(c.ctx, k, r)
		held, ok := errors.AsType[*checkpoint.HeldError](err)
		if !ok {
			return claimed, err
		}
		r.From = held.Fence
	}
}

func (c *crowd) settle(claimed checkpoint.Claimed) error {
	next := 0
	if claimed.Last != nil {
		next = claimed.Last.Turn + 1
	}
	o := checkpoint.AppendOptions{Keep: 2, Owes: rand.IntN(2) == 0, Release: rand.IntN(2) == 0}
	if err := c.store.Append(c.ctx, claimed.Lease, turn(next, claimed.Fence.Nonce), o); err != nil {
		return err
	}
	m := checkpoint.Marks{Delivered: rand.IntN(next + 2), Retry: time.Duration(rand.IntN(2)) * time.Hour}
	return c.store.Mark(c.ctx, claimed.Lease, m)
}

func (c *crowd) list() error {
	q := checkpoint.SessionQuery{Orchestrator: "bot", Owing: rand.IntN(2) == 0}
	q.Due = q.Owing && rand.IntN(2) == 0
	for _, err := range c.store.Sessions(c.ctx, q) {
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

// missing returns the sessions that the heads would list and the indexes do not. It owns each session meanwhile, so
// that none expires.
func (c *crowd) missing(n int) (missing []string, live int, err error) {
	listed := make(map[bool][]string)
	heads := make(map[string]checkpoint.Claimed)
	for i := range crowdSessions {
		k := key(fmt.Sprintf("s%d", i))
		if heads[k.Session], err = c.take(k, request(fmt.Sprintf("look-%d-%d", n, i), time.Hour)); err != nil {
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
	t.Parallel()
	client := redistest.Cluster(t)
	for name, ttl := range map[string]time.Duration{"deleted": 0, "expired": 4 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: name + ":", TTL: ttl})
			c := &crowd{ctx: t.Context(), store: store, ttl: time.Millisecond}
			live, n := 0, 0
			lasts := func(since time.Duration) bool {
				// On a busy machine sessions expire before they are looked for.
				return since < redistest.Search() || live == 0 && since < time.Minute
			}
			for start := time.Now(); lasts(time.Since(start)); n++ {
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

// empty deletes all sessions and looks for keys that are left.
func empty(t *testing.T, c *crowd) {
	t.Helper()
	for i := range crowdSessions {
		claimed, err := c.take(key(fmt.Sprintf("s%d", i)), request("last", time.Hour))
		check(t, err)
		check(t, c.store.Delete(c.ctx, claimed.Lease))
	}
	for _, owing := range []bool{false, true} {
		for id, err := range c.store.Sessions(c.ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
			t.Errorf("listed after Delete: %q, %v", id, err)
		}
	}
}
