package checkpoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestRedisNames(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	s := redischeckpoint.New(client, nil)
	names := []string{
		"a", "a/b", "b", "/", "{", "}", "{}", "{a}", "}{", "%", "%2F", "%252F",
		"a:session", "\n", "*", "😀", "\u202e", strings.Repeat("{", 512),
	}
	for _, orchestrator := range names {
		for _, session := range names {
			k := checkpoint.Key{Orchestrator: orchestrator, Session: session}
			c := must[checkpoint.Claimed](t)(s.Claim(t.Context(), k, request()))
			cp := turn(0)
			cp.State, _ = json.Marshal(k)
			check(t, s.Append(t.Context(), c.Lease, cp, none))
		}
	}
	for _, orchestrator := range names {
		n := 0
		for session, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: orchestrator}) {
			check(t, err)
			k := checkpoint.Key{Orchestrator: orchestrator, Session: session}
			cp := must[checkpoint.Checkpoint](t)(checkpoint.Load(t.Context(), s, k, 0))
			want, _ := json.Marshal(k)
			if string(cp.State) != string(want) {
				t.Errorf("session %q of %q holds %s", session, orchestrator, cp.State)
			}
			n++
		}
		if n != len(names) {
			t.Errorf("%d sessions of %q, want %d", n, orchestrator, len(names))
		}
	}
}

// The sessions of a cluster are on several nodes, and more than a page.
func TestRedisRaiseCluster(t *testing.T) {
	t.Parallel()
	newStore := numberedOn(redistest.Cluster(t), redischeckpoint.Options{})
	checkpointtest.RunRaiser(t, func(*testing.T) checkpointtest.RaisingStore { return newStore() })
	s := newStore()
	const most = 2500
	for i := range most {
		claim(t, s, fmt.Sprint(i))
	}
	if ended, err := s.Raise(t.Context(), time.Now()); ended != most || err != nil {
		t.Errorf("ended %d, want %d: %v", ended, most, err)
	}
}

// No call fails while slots move, even if the session is new, has no request ids, or moves between two calls.
func TestRedisSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{TTL: time.Hour})
	m := redistest.Moves{
		Tags: []string{"{bot}", "{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error { return live(ctx, s, key(fmt.Sprint("s", w)), n) },
	}
	m.Run(t, nodes, client)
}

// live leads a session from its first claim to its end, and checks its data.
func live(ctx context.Context, s *redischeckpoint.Store, k checkpoint.Key, n int) error {
	r := request()
	r.RequestID = "asked"
	c, err := s.Claim(ctx, k, r)
	if err != nil {
		return err
	}
	if c.Last != nil {
		return fmt.Errorf("a deleted session has %+v", c.Last)
	}
	for i := range 4 {
		cp := turn(i)
		cp.RunID = fmt.Sprint(n, "-", i)
		if i%2 == 0 {
			cp.RequestID = ""
		}
		err := s.Append(ctx, c.Lease, cp, checkpoint.AppendOptions{Keep: 2, Owes: i == 1})
		if err == nil && i == 0 {
			_, err = s.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease})
		}
		if err != nil {
			return err
		}
	}
	held, err := s.Held(ctx, k.Orchestrator, []string{k.Session})
	if err == nil && len(held) != 1 {
		err = errors.New("the session is not held")
	}
	if err != nil {
		return err
	}
	if err := s.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: 4, Release: true}); err != nil {
		return err
	}
	return end(ctx, s, k)
}

func end(ctx context.Context, s *redischeckpoint.Store, k checkpoint.Key) error {
	c, err := s.Claim(ctx, k, request())
	if err != nil {
		return err
	}
	if c.Last == nil || c.Last.Turn != 3 {
		return fmt.Errorf("after turn 3 the last is %+v", c.Last)
	}
	err = errorsOf(s.Turns(ctx, k, checkpoint.Newest))
	for _, owing := range []bool{false, true} {
		q := checkpoint.SessionQuery{Orchestrator: k.Orchestrator, Owing: owing}
		err = errors.Join(err, errorsOf(s.Sessions(ctx, q)))
	}
	if err != nil {
		return err
	}
	return s.Delete(ctx, c.Lease)
}

// If fewer turns are kept than before, readers, claims and repeats see none of the pruned turns at once. But one Append
// removes 1,000 at most, because the server does nothing else meanwhile. The next Appends remove the rest.
func TestRedisPruneInBatches(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	l := claim(t, s, "a").Lease
	n := 0
	next := func(keep int) {
		t.Helper()
		settle(t, s, l, checkpoint.AppendOptions{Keep: keep}, n)
		n++
	}
	const most = 1000
	turns := 2600
	if redistest.Soak() {
		turns = 60_000
	}
	for range turns {
		next(checkpoint.KeepAll)
	}
	left := func() int64 { return client.HLen(ctx, "holdfast:{bot/a}:session").Val() }
	const ofTurn = 8 // fields, also of its ids
	head := left() - int64(turns*ofTurn)
	longest := time.Duration(0)
	for stored := turns; stored > 3; {
		check(t, client.ConfigResetStat(ctx).Err())
		start := time.Now()
		next(3)
		longest = max(longest, time.Since(start))
		if calls := redistest.Stats(t, client)["cmdstat_hdel"]; calls > 3*most+10 {
			t.Errorf("one Append removes %d fields", calls)
		}
		stored = max(stored+1-most, 3)
		if got := left() - head; got != int64(stored*ofTurn) {
			t.Errorf("%d fields of turns are left, want those of %d", got, stored)
		}
		if got := kept(t, s); !slices.Equal(got, []int{n - 1, n - 2, n - 3}) {
			t.Errorf("turns %d are kept", got)
		}
		pruned := turn(n - 4)
		want(t, s.Append(ctx, l, pruned, none), checkpoint.ErrConflict)
		r := request()
		r.Nonce, r.RequestID = l.Fence.Nonce, pruned.RequestID
		if c := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), r)); c.Answered != nil {
			t.Errorf("answered by turn %d, which is pruned", c.Answered.Turn)
		}
	}
	t.Logf("of %d turns; the longest Append took %v", turns, longest)
}

// A claim and a settle cost the same whether a session keeps 10 turns or 5,000, in commands that the scripts call, and
// in bytes that come back.
func TestRedisCostIsFlat(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	s := redischeckpoint.New(client, nil)
	young, old := cost(t, client, s, 10), cost(t, client, s, 5000)
	if !maps.Equal(young, old) {
		t.Errorf("with 10 turns %v, with 5,000 %v", young, old)
	}
}

// cost returns the cost of claiming and settling in a session that keeps n turns. The turns that come back have four
// digits each.
func cost(t *testing.T, client *redis.Client, s *redischeckpoint.Store, n int) map[string]int {
	t.Helper()
	ctx := t.Context()
	l := claim(t, s, fmt.Sprintf("s%04d", n)).Lease
	const last = 6100
	for i := range last {
		settle(t, s, l, checkpoint.AppendOptions{Keep: n}, i)
	}
	mark(t, s, l, release)

	check(t, client.ConfigResetStat(ctx).Err())
	r := request()
	r.Nonce, r.RequestID = "as long", turn(last-n).RequestID
	c := must[checkpoint.Claimed](t)(s.Claim(ctx, l.Key, r))
	if c.Answered == nil || c.Answered.Turn != last-n {
		t.Fatalf("answered by %+v", c.Answered)
	}
	settle(t, s, c.Lease, checkpoint.AppendOptions{Keep: n}, last)
	stats := redistest.Stats(t, client)
	delete(stats, "total_net_input_bytes") // n has not the same number of digits in both
	return stats
}
