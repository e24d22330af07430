package redissnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A crowd of processes begins, adopts, deletes and lists the runs of a few sessions, all at once and without
// coordination.
type crowd struct {
	ctx    context.Context
	stores []*redissnapshot.Store
	epochs atomic.Int64
}

const crowdSessions = 3

func (c *crowd) anyone() *redissnapshot.Store { return c.stores[rand.IntN(len(c.stores))] }

func (c *crowd) fence() lock.Fence { return fence(c.epochs.Add(1)) }

// act does one thing. It returns no error that is to be expected in a crowd.
func (c *crowd) act() error {
	s, k, f := c.anyone(), key(fmt.Sprintf("s%d", rand.IntN(crowdSessions))), c.fence()
	if rand.IntN(4) == 0 {
		_, err := c.list(s)
		return err
	}
	r := run(k.Session, fmt.Sprint("run", f.Epoch), f)
	found, err := s.Begin(c.ctx, r)
	if err == nil && found != nil {
		if r, err = s.Adopt(c.ctx, k, c.fence(), 0); errors.Is(err, snapshot.ErrNotFound) {
			return nil
		}
	}
	if err == nil {
		r.Seq++
		err = s.Save(c.ctx, r)
	}
	if err == nil && rand.IntN(4) > 0 {
		err = c.anyone().Delete(c.ctx, k, r.ID, r.Fence)
	}
	if errors.Is(err, lock.ErrFenced) {
		return nil
	}
	return err
}

func (c *crowd) list(s *redissnapshot.Store) (map[string]string, error) {
	listed := make(map[string]string)
	for r, err := range s.Runs(c.ctx, snapshot.Query{Key: key("")}) {
		if err != nil {
			return nil, err
		}
		listed[r.Session] = r.ID
	}
	return listed, nil
}

// round lets the crowd act for a few steps and waits for all.
func (c *crowd) round() error {
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			for range 6 {
				errs[i] = errors.Join(errs[i], c.act())
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// missing returns the runs that the sessions have and the list lacks, and how many sessions have a run.
func (c *crowd) missing() (missing []string, live int, err error) {
	listed, err := c.list(c.anyone())
	if err != nil {
		return nil, 0, err
	}
	for i := range crowdSessions {
		k := key(fmt.Sprintf("s%d", i))
		id := ""
		for r, err := range c.anyone().Runs(c.ctx, snapshot.Query{Key: k}) {
			if err != nil {
				return nil, 0, err
			}
			live++
			id = r.ID
		}
		if listed[k.Session] != id {
			missing = append(missing, fmt.Sprintf("%s has %q, listed %q", k.Session, id, listed[k.Session]))
		}
	}
	return missing, live, nil
}

// An index entry may be stale but is never missing. This holds on a cluster, where the index may be on another node
// than the run, and where one process removes an entry that another relies on.
func TestIndexNeverMisses(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	c := &crowd{ctx: t.Context()}
	for range 3 {
		c.stores = append(c.stores, redissnapshot.New(client, nil))
	}
	live, n := 0, 0
	for start := time.Now(); time.Since(start) < redistest.Search(); n++ {
		check(t, c.round())
		missing, found, err := c.missing()
		check(t, err)
		if len(missing) > 0 {
			t.Fatalf("round %d: %q", n, missing)
		}
		live += found
	}
	t.Logf("%d rounds, %d runs found alive", n, live)
	if live == 0 {
		t.Error("no run outlived a round")
	}
}

// From the return of Begin to the call of Delete, every listing has the run, though readers never rest.
func TestBegunIsListed(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	readers := &crowd{ctx: ctx, stores: []*redissnapshot.Store{redissnapshot.New(client, nil)}}
	var reading, writing sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := readers.list(readers.anyone()); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	stores := []*redissnapshot.Store{redissnapshot.New(client, nil), redissnapshot.New(client, nil)}
	turns := make([]int64, 4)
	for i := range turns {
		writing.Go(func() { turns[i] = play(t, stores, fmt.Sprint("s", i)) })
	}
	writing.Wait()
	cancel()
	reading.Wait()
	t.Logf("turns: %d", turns)
}

// play begins, saves and deletes runs of one session, each in another process than the run before. It looks for each
// run in the list, and returns how many runs it played.
func play(t *testing.T, stores []*redissnapshot.Store, session string) (turns int64) {
	c := &crowd{ctx: t.Context(), stores: stores}
	for start := time.Now(); time.Since(start) < redistest.Search(); {
		turns++
		s := c.anyone()
		r := run(session, fmt.Sprint("run", turns), fence(turns))
		found, err := s.Begin(c.ctx, r)
		if err != nil || found != nil {
			t.Errorf("Begin finds %v, %v", found, err)
			return turns
		}
		for range 2 {
			listed, err := c.list(c.anyone())
			if err != nil || listed[session] != r.ID {
				t.Errorf("%s of %s is missing from %v, %v", r.ID, session, listed, err)
				return turns
			}
			r.Seq++
			if err := s.Save(c.ctx, r); err != nil {
				t.Error(err)
				return turns
			}
		}
		if err := c.anyone().Delete(c.ctx, r.Key, r.ID, r.Fence); err != nil {
			t.Error(err)
			return turns
		}
	}
	return turns
}

// The index grows with the runs in flight, not with the history, also if no process lists. In the end it is empty. The
// memory of a deleted run expires.
func TestIndexStaysSmall(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	const remember = 2 * time.Hour
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix, Remember: remember})
	ctx := t.Context()
	entries := func() int64 { return client.ZCard(ctx, prefix+"{bot}:inflight").Val() }
	var inFlight []snapshot.Run
	for n := range 200 {
		r := run(fmt.Sprint("s", n), "run", fence(1))
		begin(t, s, r)
		if n%10 == 0 {
			inFlight = append(inFlight, r)
			continue
		}
		check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
		if got, most := entries(), int64(len(inFlight)+1); got > most {
			t.Fatalf("%d entries, want at most %d", got, most)
		}
	}
	for _, r := range inFlight {
		check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
	}
	for r, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		t.Errorf("listed %s, %v", r.Session, err)
	}
	if got := entries(); got > 0 {
		t.Errorf("%d entries are left", got)
	}
	keys, err := client.Keys(ctx, prefix+"*").Result()
	check(t, err)
	for _, k := range keys {
		if left := client.PTTL(ctx, k).Val(); left <= 0 || left > remember {
			t.Errorf("%s stays for %v", k, left)
		}
	}
}

// A process that only deletes removes entries now and then.
func TestDeletesOnly(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	o := &redissnapshot.Options{Prefix: prefix}
	beginner, deleter := redissnapshot.New(client, o), redissnapshot.New(client, o)
	const runs = 100
	for n := range runs {
		begin(t, beginner, run(fmt.Sprint("s", n), "run", fence(1)))
	}
	for n := range runs {
		check(t, deleter.Delete(t.Context(), key(fmt.Sprint("s", n)), "run", fence(1)))
	}
	if got := client.ZCard(t.Context(), prefix+"{bot}:inflight").Val(); got >= runs-50 {
		t.Errorf("%d entries are left of %d", got, runs)
	}
}

// A turn costs two round trips to begin and one for each other call.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: shared.Options().Addr})
	defer client.Close()
	sent := new(spy)
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	warm := run("warm", "run", fence(1))
	turn := func(r snapshot.Run) {
		begin(t, s, r)
		check(t, s.Save(t.Context(), step(r, 1)))
		f := fence(r.Fence.Epoch + 1)
		_, err := s.Adopt(t.Context(), r.Key, f, 9)
		check(t, err)
		check(t, s.Delete(t.Context(), r.Key, r.ID, f))
	}
	turn(warm) // Redis has the scripts now
	client.AddHook(sent)
	for n := range int64(10) {
		turn(run("a", fmt.Sprint("run", n), fence(2*n+1)))
	}
	if len(sent.requests) != 10*5 {
		t.Errorf("%d round trips for 10 turns, want 5 each", len(sent.requests))
	}
}
