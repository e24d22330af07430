package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// A crowd claims, settles, delivers, deletes and lists a few sessions, all at once and without regard for each other.
type crowd struct {
	ctx   context.Context
	store *redischeckpoint.Store
	ttl   time.Duration // of their leases
}

const crowdSessions = 3

// act does one thing. Refusals that a crowd must expect are no error.
func (c *crowd) act() error {
	session := fmt.Sprint("s", rand.IntN(crowdSessions))
	what := rand.IntN(4)
	if what == 0 {
		return c.list()
	}
	r := request()
	r.TTL = c.ttl
	claimed, err := take(c.ctx, c.store, session, r)
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

func (c *crowd) settle(claimed checkpoint.Claimed) error {
	cp := turn(0)
	if claimed.Last != nil {
		cp = turn(claimed.Last.Turn + 1)
	}
	cp.RunID = claimed.Fence.Nonce
	o := checkpoint.AppendOptions{Keep: 2, Owes: rand.IntN(2) == 0, Release: rand.IntN(2) == 0, Relabel: true}
	if waits(cp) {
		o.Labels = []checkpoint.Label{{Name: "wait", At: time.UnixMilli(rand.Int64N(3) + 1)}}
	}
	if err := c.store.Append(c.ctx, claimed.Lease, cp, o); err != nil {
		return err
	}
	m := checkpoint.Marks{Delivered: rand.IntN(cp.Turn + 2), Retry: time.Duration(rand.IntN(2)) * time.Hour}
	return c.store.Mark(c.ctx, claimed.Lease, m)
}

// waits reports whether a turn labels its session.
func waits(cp checkpoint.Checkpoint) bool { return cp.RunID[len(cp.RunID)-1]%2 == 0 }

// waiting returns the sessions with the label, by any time or by one.
func (c *crowd) waiting(t *testing.T, by time.Time) (sessions []string) {
	t.Helper()
	q := checkpoint.SessionQuery{Orchestrator: "bot", Label: "wait", By: by}
	for id, err := range c.store.Sessions(c.ctx, q) {
		check(t, err)
		sessions = append(sessions, id)
	}
	return sessions
}

func (c *crowd) list() error {
	if rand.IntN(2) == 0 {
		q := checkpoint.SessionQuery{Orchestrator: "bot", Label: "wait"}
		if rand.IntN(2) == 0 {
			q.By = time.UnixMilli(2)
		}
		return errorsOf(c.store.Sessions(c.ctx, q))
	}
	q := checkpoint.SessionQuery{Orchestrator: "bot", Owing: rand.IntN(2) == 0}
	q.Due = q.Owing && rand.IntN(2) == 0
	return errorsOf(c.store.Sessions(c.ctx, q))
}

// missing returns the sessions that the heads would list and the indexes do not. It owns each session meanwhile, so
// that none expires.
func (c *crowd) missing(t *testing.T) (missing []string, live int) {
	t.Helper()
	heads := make(map[string]checkpoint.Claimed)
	for i := range crowdSessions {
		id := fmt.Sprint("s", i)
		heads[id] = claim(t, c.store, id)
	}
	all, owing := list(t, c.store, false), list(t, c.store, true)
	waiting, due := c.waiting(t, time.Time{}), c.waiting(t, time.UnixMilli(3))
	for id, head := range heads {
		settled := head.Last != nil
		owes := settled && head.Delivered <= head.Last.Turn
		if settled {
			live++
		}
		if settled != slices.Contains(all, id) || owes != slices.Contains(owing, id) {
			missing = append(missing,
				fmt.Sprintf("%s: settled %v, owes %v, listed %q, owing %q", id, settled, owes, all, owing))
		}
		want := settled && waits(*head.Last)
		if want != slices.Contains(waiting, id) || want != slices.Contains(due, id) {
			missing = append(missing, fmt.Sprintf("%s: waits %v, listed %q, due %q", id, want, waiting, due))
		}
		mark(t, c.store, head.Lease, release)
	}
	return missing, live
}

// An index entry may be stale but is never missing, on a cluster where it lives elsewhere than its head.
func TestRedisIndexNeverMisses(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	for name, ttl := range map[string]time.Duration{"deleted": 0, "expired": 4 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: name + ":", TTL: ttl})
			c := &crowd{ctx: t.Context(), store: store, ttl: time.Millisecond}
			live, n := 0, 0
			for start := time.Now(); redistest.Goes(start, live); n++ { // sessions expire soon
				check(t, redistest.Crowd(c.act))
				missing, found := c.missing(t)
				if len(missing) > 0 {
					t.Fatalf("round %d: %q", n, missing)
				}
				live += found
			}
			t.Logf("%d rounds, %d sessions found alive", n, live)
			if live == 0 {
				t.Error("no session outlived a round")
			}
			for i := range crowdSessions {
				deleteAll(t, c.store, claim(t, c.store, fmt.Sprint("s", i)).Lease)
			}
			left := slices.Concat(list(t, c.store, false), list(t, c.store, true), c.waiting(t, time.Time{}))
			if len(left) > 0 {
				t.Errorf("listed after Delete: %q", left)
			}
		})
	}
}

var errCut = errors.New("connection reset")

// A scissors hook loses the answer to one request, and sends no request after it: the process has died.
type scissors struct{ at, n int }

var _ redis.Hook = (*scissors)(nil)

func (s *scissors) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scissors) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.n++; s.n > s.at {
			return errCut
		}
		err := next(ctx, cmd)
		if s.n == s.at {
			return errCut
		}
		return err
	}
}

func (s *scissors) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next // an Append sends none
}

// An Append is cut off at every request. If the turn has settled, its session is listed, and its reply as owed.
func TestRedisListedWhereverItIsCut(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]int{"first turn": 0, "first turn that is owed": 1} {
		t.Run(name, func(t *testing.T) {
			shared, prefix := testenv.Redis(t)
			s := redisOn(shared, prefix, redischeckpoint.Options{})
			unanswered := 0
			for at, whole := 1, false; !whole; at++ {
				l := claim(t, s, fmt.Sprintf("s%02d", at)).Lease
				for n := range before {
					settle(t, s, l, none, n)
				}
				cut := redisOn(redistest.Another(t, shared, &scissors{at: at}), prefix, redischeckpoint.Options{})
				err := cut.Append(t.Context(), l, turn(before), owes)
				_, load := checkpoint.Load(t.Context(), s, l.Key, before)
				if whole = err == nil; !whole {
					want(t, err, errCut)
				}
				if !whole && load == nil {
					unanswered++
				}
				for _, owing := range []bool{false, true} {
					if load == nil && !slices.Contains(list(t, s, owing), l.Session) {
						t.Errorf("cut off at request %d: settled, and not listed, owing %t", at, owing)
					}
				}
			}
			if unanswered == 0 {
				t.Error("no cut came between the settle and its answer")
			}
		})
	}
}
