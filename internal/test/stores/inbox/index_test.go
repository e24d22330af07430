package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// A crowd of processes posts, removes and lists the items of a few sessions, all at once and without coordination.
type crowd struct {
	ctx    context.Context
	stores []inbox.Store
}

const crowdSessions = 3

func newCrowd(ctx context.Context, client redis.UniversalClient) *crowd {
	c := &crowd{ctx: ctx}
	for range 3 {
		c.stores = append(c.stores, onRedis.New(client, ""))
	}
	return c
}

func (c *crowd) anyone() inbox.Store { return c.stores[rand.IntN(len(c.stores))] }

// act does one thing.
func (c *crowd) act() error {
	k, id := key(fmt.Sprintf("s%d", rand.IntN(crowdSessions))), fmt.Sprint("q", rand.IntN(2))
	switch rand.IntN(6) {
	case 0:
		_, err := list(c.ctx, c.anyone(), "")
		return err
	case 1, 2:
		return c.anyone().Remove(c.ctx, k, inbox.Answer, id)
	case 3:
		return c.anyone().Remove(c.ctx, k, inbox.Answer)
	}
	_, err := c.anyone().Post(c.ctx, item(k.Session, id, "ada"))
	return err
}

// missing returns how the items of the sessions differ from the list of all, and how many items there are.
func (c *crowd) missing() (missing string, n int, err error) {
	listed, err := list(c.ctx, c.anyone(), "")
	var all []string
	for i := range crowdSessions {
		found, failed := list(c.ctx, c.anyone(), fmt.Sprintf("s%d", i))
		all, err = append(all, found...), errors.Join(err, failed)
	}
	if !slices.Equal(all, listed) {
		missing = fmt.Sprintf("there are %q, and listed are %q", all, listed)
	}
	return missing, len(all), err
}

// An index entry may be stale but is never missing. This holds on a cluster, where the index may be on another node
// than the session, and where one process removes an entry that another relies on.
func TestRedisIndexNeverMisses(t *testing.T) {
	t.Parallel()
	c := newCrowd(t.Context(), redistest.Cluster(t))
	there, n := 0, 0
	for start := time.Now(); redistest.Goes(start, there); n++ {
		check(t, redistest.Crowd(c.act))
		missing, found, err := c.missing()
		check(t, err)
		if missing != "" {
			t.Fatalf("round %d: %s", n, missing)
		}
		there += found
	}
	t.Logf("%d rounds, %d items found", n, there)
	if there == 0 {
		t.Error("no item outlived a round")
	}
}

// From the return of Post to the call of Remove, every listing has the item, though readers never rest.
func TestRedisPostedIsListed(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	readers := newCrowd(ctx, client)
	var reading, writing sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := list(ctx, readers.anyone(), ""); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	turns := make([]int, 4)
	for i := range turns {
		writing.Go(func() { turns[i] = play(t, newCrowd(t.Context(), client), fmt.Sprint("s", i)) })
	}
	writing.Wait()
	cancel()
	reading.Wait()
	t.Logf("turns: %d", turns)
}

// play posts and removes items of one session, each in another process than the item before. It looks for each item in
// the list, and returns how many items it posted.
func play(t *testing.T, c *crowd, session string) (n int) {
	for start := time.Now(); time.Since(start) < redistest.Search(); n++ {
		id := fmt.Sprint("q ", session, n)
		if first, err := c.anyone().Post(c.ctx, item(session, id, "ada")); err != nil || !first {
			t.Errorf("Post: %t, %v", first, err)
			return n
		}
		for range 2 {
			if listed, err := list(c.ctx, c.anyone(), ""); err != nil || !slices.Contains(listed, id) {
				t.Errorf("%s is missing from %q, %v", id, listed, err)
				return n
			}
		}
		if err := c.anyone().Remove(c.ctx, key(session), inbox.Answer, id); err != nil {
			t.Error(err)
			return n
		}
		if left, err := list(c.ctx, c.anyone(), session); err != nil || len(left) > 0 {
			t.Errorf("%q are left, %v", left, err)
			return n
		}
	}
	return n
}

// No call fails while slots move: not for a new session, nor for an item that moves between two calls.
func TestRedisSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	m := redistest.Moves{
		Tags: []string{"{bot}", "{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error {
			// Three lives are followed by another session in the same slot, and another index.
			s := onRedis.New(client, fmt.Sprintf("p%d:", n/3))
			return live(ctx, s, fmt.Sprint("s", w))
		},
	}
	m.Run(t, nodes, client)
}

// live takes two items from their Post to their Remove, and looks for them.
func live(ctx context.Context, s inbox.Store, session string) error {
	for _, id := range []string{"a", "b"} {
		for _, by := range []string{"ada", "bob"} {
			if first, err := s.Post(ctx, item(session, id, by)); err != nil || first != (by == "ada") {
				return fmt.Errorf("post %s by %s: %t, %w", id, by, first, err)
			}
		}
	}
	if got, err := list(ctx, s, session); err != nil || !slices.Equal(got, []string{"a", "b"}) {
		return fmt.Errorf("listed %q, %w", got, err)
	}
	if got, err := list(ctx, s, ""); err != nil || !slices.Contains(got, "b") {
		return fmt.Errorf("listed of all %q, %w", got, err)
	}
	err := errors.Join(s.Remove(ctx, key(session), inbox.Answer, "a"), s.Remove(ctx, key(session), inbox.Answer))
	if err != nil {
		return err
	}
	if got, err := list(ctx, s, session); err != nil || len(got) > 0 {
		return fmt.Errorf("left are %q, %w", got, err)
	}
	return nil
}
