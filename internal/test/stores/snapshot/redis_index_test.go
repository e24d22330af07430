package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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

func newCrowd(ctx context.Context, client redis.UniversalClient, n int) *crowd {
	c := &crowd{ctx: ctx}
	for range n {
		c.stores = append(c.stores, redissnapshot.New(client, nil))
	}
	return c
}

func (c *crowd) anyone() *redissnapshot.Store { return c.stores[rand.IntN(len(c.stores))] }

// act does one thing. It returns no error that is to be expected in a crowd.
func (c *crowd) act() error {
	s, session, epoch := c.anyone(), fmt.Sprintf("s%d", rand.IntN(crowdSessions)), c.epochs.Add(1)
	if rand.IntN(4) == 0 {
		_, err := list(c.ctx, s, "")
		return err
	}
	r := runAs(session, fmt.Sprint("run", epoch), epoch)
	found, err := s.Begin(c.ctx, r)
	if err == nil && found != nil {
		if r, err = s.Adopt(c.ctx, r.Key, fence(c.epochs.Add(1)), 0); errors.Is(err, snapshot.ErrNotFound) {
			return nil
		}
	}
	if err == nil {
		r.Seq++
		err = s.Save(c.ctx, r)
	}
	if err == nil && rand.IntN(4) > 0 {
		err = remove(c.ctx, c.anyone(), r)
	}
	if errors.Is(err, lock.ErrFenced) {
		return nil
	}
	return err
}

// ids returns the runs of a session, or of all sessions, as anyone finds them.
func (c *crowd) ids(session string) (ids []string, err error) {
	runs, err := list(c.ctx, c.anyone(), session)
	for _, r := range runs {
		ids = append(ids, r.Session+" has "+r.ID)
	}
	return ids, err
}

// An index entry may be stale but is never missing. This holds on a cluster, where the index may be on another node
// than the run, and where one process removes an entry that another relies on.
func TestRedisIndexNeverMisses(t *testing.T) {
	t.Parallel()
	c := newCrowd(t.Context(), redistest.Cluster(t), 3)
	live, n := 0, 0
	for start := time.Now(); redistest.Goes(start, live); n++ {
		check(t, redistest.Crowd(c.act))
		all, err := c.ids("")
		check(t, err)
		var alone []string // as each session has them
		for i := range crowdSessions {
			ids, err := c.ids(fmt.Sprintf("s%d", i))
			check(t, err)
			alone = append(alone, ids...)
		}
		if !slices.Equal(all, alone) {
			t.Fatalf("round %d: listed %q, and sessions have %q", n, all, alone)
		}
		live += len(alone)
	}
	t.Logf("%d rounds, %d runs found alive", n, live)
	if live == 0 {
		t.Error("no run outlived a round")
	}
}

// From the return of Begin to the call of Delete, every listing has the run, though readers never rest.
func TestRedisBegunIsListed(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader := redissnapshot.New(client, nil)
	var reading, writing sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for ctx.Err() == nil {
				if _, err := list(ctx, reader, ""); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	c := newCrowd(t.Context(), client, 2)
	turns := make([]int64, 4)
	for i := range turns {
		writing.Go(func() {
			var err error
			for start := time.Now(); time.Since(start) < redistest.Search() && err == nil; {
				turns[i]++
				err = c.play(runAs(fmt.Sprint("s", i), fmt.Sprint("run", turns[i]), turns[i]))
			}
			want(t, err, nil)
		})
	}
	writing.Wait()
	cancel()
	reading.Wait()
	t.Logf("turns: %d", turns)
}

// play begins, saves and deletes a run, each in any process. It looks for the run in the list.
func (c *crowd) play(r snapshot.Run) error {
	s := c.anyone()
	found, err := s.Begin(c.ctx, r)
	if err != nil || found != nil {
		return fmt.Errorf("Begin finds %v, %w", found, err)
	}
	for range 2 {
		listed, err := c.ids("")
		if err != nil || !slices.Contains(listed, r.Session+" has "+r.ID) {
			return fmt.Errorf("%s of %s is missing from %q, %w", r.ID, r.Session, listed, err)
		}
		r.Seq++
		if err := s.Save(c.ctx, r); err != nil {
			return err
		}
	}
	return remove(c.ctx, c.anyone(), r)
}

// The index grows with the runs in flight, not with the history, also if no process lists. In the end it is empty. The
// memory of a deleted run expires.
func TestRedisIndexStaysSmall(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	const remember = 2 * time.Hour
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix, Remember: remember})
	ctx := t.Context()
	entries := func() int64 { return client.ZCard(ctx, prefix+"{bot}:inflight").Val() }
	var inFlight []snapshot.Run
	for n := range 200 {
		r := begin(t, s, run(fmt.Sprint("s", n)))
		if n%10 == 0 {
			inFlight = append(inFlight, r)
			continue
		}
		check(t, remove(ctx, s, r))
		if got, most := entries(), int64(len(inFlight)+1); got > most {
			t.Fatalf("%d entries, want at most %d", got, most)
		}
	}
	for _, r := range inFlight {
		check(t, remove(ctx, s, r))
	}
	if left := listed(t, s, ""); len(left) > 0 || entries() > 0 {
		t.Errorf("%q are listed, and %d entries are left", left, entries())
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
func TestRedisDeletesOnly(t *testing.T) {
	t.Parallel()
	deleter, client, prefix := newRedis(t)
	beginner := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	const runs = 100
	for n := range runs {
		begin(t, beginner, run(fmt.Sprint("s", n)))
	}
	for n := range runs {
		check(t, remove(t.Context(), deleter, run(fmt.Sprint("s", n))))
	}
	if got := client.ZCard(t.Context(), prefix+"{bot}:inflight").Val(); got >= runs-50 {
		t.Errorf("%d entries are left of %d", got, runs)
	}
}

// A turn costs two round trips to begin and one for each other call.
func TestRedisRoundTrips(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	client, sent := redistest.Another(t, shared), new(redistest.Spy)
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	turn := func(r snapshot.Run) {
		begin(t, s, r)
		check(t, s.Save(t.Context(), next(r)))
		r.Fence = fence(r.Fence.Epoch + 1)
		check(t, take(t.Context(), s, r.Session, r.Fence.Epoch))
		check(t, remove(t.Context(), s, r))
	}
	turn(run("warm")) // Redis has the scripts now
	client.AddHook(sent)
	for n := range int64(10) {
		turn(runAs("a", fmt.Sprint("run", n), 2*n+1))
	}
	if len(sent.Requests) != 10*5 {
		t.Errorf("%d round trips for 10 turns, want 5 each", len(sent.Requests))
	}
}

// No call fails while slots move: not for a new session, nor for a run that moves between two calls.
func TestRedisSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	m := redistest.Moves{
		Tags: []string{"{bot}", "{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error {
			// Three lives are followed by another session in the same slot, and another index.
			s := redissnapshot.New(client, &redissnapshot.Options{Prefix: fmt.Sprintf("p%d:", n/3)})
			return live(ctx, s, fmt.Sprint("s", w), int64(n))
		},
	}
	m.Run(t, nodes, client)
}

// live takes a run from its Begin to its end, and checks what the run holds.
func live(ctx context.Context, s *redissnapshot.Store, session string, n int64) error {
	r := runAs(session, fmt.Sprint("run", n), 3*n+1)
	r.Parts = parts("begun", n)
	if found, err := s.Begin(ctx, r); err != nil || found != nil {
		return fmt.Errorf("found %v, %w", found, err)
	}
	if err := errors.Join(s.Save(ctx, step(r, 1)), s.Save(ctx, adds(r, 2, parts("x", n)))); err != nil {
		return err
	}
	got, err := s.Adopt(ctx, r.Key, fence(3*n+2), 9)
	if err != nil {
		return err
	}
	if got.Seq != 2 || len(got.Parts) != 1 {
		return fmt.Errorf("adopted %+v", got)
	}
	runs, err := list(ctx, s, "")
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(runs, func(r snapshot.Run) bool { return r.Session == session }) {
		return errors.New("the run is not listed")
	}
	if err := remove(ctx, s, got); err != nil {
		return err
	}
	if err = take(ctx, s, session, 3*n+3); errors.Is(err, snapshot.ErrNotFound) {
		err = nil
	}
	return err
}
