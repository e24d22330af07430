package checkpoint_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/lock"
)

// left returns the lifetime of a session.
func (s rd) left(t *testing.T, session string) time.Duration {
	t.Helper()
	return must[time.Duration](t)(s.client.PTTL(t.Context(), s.at(session)).Result())
}

func (s rd) wantLeft(t *testing.T, session string, least, most time.Duration) {
	t.Helper()
	if left := s.left(t, session); left < least || left > most+time.Second {
		t.Fatalf("session %q has %v, want %v to %v", session, left, least, most)
	}
}

// awaitGone waits until a session has expired.
func (s rd) awaitGone(t *testing.T, session string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); s.left(t, session) != gone; {
		if time.Now().After(deadline) {
			t.Fatal("the session does not expire")
		}
	}
}

const forever, gone = time.Duration(-1), time.Duration(-2)

// A session expires a TTL after its lease ends, and not while it owes.
func TestRedisExpiry(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{TTL: time.Hour})
	l := claimFor(t, s, "a", 2*time.Hour).Lease
	settle(t, s, l, none, 0)
	s.wantLeft(t, "a", 2*time.Hour+59*time.Minute, 3*time.Hour)
	settle(t, s, l, owes, 1)
	s.wantLeft(t, "a", forever, forever)
	renew(t, s, time.Hour, l)
	s.wantLeft(t, "a", forever, forever)
	mark(t, s, l, checkpoint.Marks{Delivered: 2})
	s.wantLeft(t, "a", time.Hour+59*time.Minute, 2*time.Hour)
	renew(t, s, 4*time.Hour, l)
	s.wantLeft(t, "a", 4*time.Hour+59*time.Minute, 5*time.Hour)
	mark(t, s, l, release)
	s.wantLeft(t, "a", 59*time.Minute, time.Hour)

	claim(t, redisOn(s.client, s.prefix, redischeckpoint.Options{}), "a")
	s.wantLeft(t, "a", forever, forever)
}

// The longest TTL is as good as none: nothing expires.
func TestRedisLongestTTL(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{TTL: math.MaxInt64, Unsettled: math.MaxInt64})
	l := claim(t, s, "a").Lease
	_, err := s.Claim(t.Context(), key("a"), request())
	want(t, err, lock.ErrHeld)
	settle(t, s, l, checkpoint.AppendOptions{Release: true}, 0)
	must[checkpoint.Head](t)(s.Head(t.Context(), key("a")))
}

// If sessions have expired, nothing of them is left once Sweep has passed. One call looks at no more entries than its
// limit.
func TestRedisSweep(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	ctx := t.Context()
	s := redischeckpoint.New(client, &redischeckpoint.Options{TTL: time.Millisecond})
	const gone, live = 2000, 10
	for i := range gone + live {
		settle(t, s, claim(t, s, fmt.Sprintf("s%04d", i)).Lease, checkpoint.AppendOptions{Release: i < gone}, 0)
	}
	entries := func() int64 { return client.ZCard(ctx, "holdfast:{bot}:sessions").Val() }
	if n := entries(); n != gone+live {
		t.Fatalf("%d entries, want %d", n, gone+live)
	}
	removed := 0
	for deadline := time.Now().Add(time.Minute); entries() > live; {
		check(t, client.ConfigResetStat(ctx).Err())
		n, err := s.Sweep(ctx, 300)
		if check(t, err); n > 300 {
			t.Errorf("removed %d, limit 300", n)
		}
		if calls := redistest.Stats(t, client)["cmdstat_evalsha"]; calls > 300+4 {
			t.Errorf("%d scripts for a limit of 300", calls)
		}
		removed += n
		if time.Now().After(deadline) {
			t.Fatalf("%d entries stay", entries())
		}
	}
	rest, err := s.Sweep(ctx, 0)
	if check(t, err); rest != 0 || removed != gone || entries() != live {
		t.Errorf("removed %d and %d, want %d; %d entries are left", removed, rest, gone, entries())
	}
	if keys := client.DBSize(ctx).Val(); keys != live+1 {
		t.Errorf("%d keys, want %d sessions and the index", keys, live)
	}
	if n := must[int](t)(redischeckpoint.New(client, nil).Sweep(ctx, 0)); n != 0 {
		t.Errorf("without a TTL %d were removed", n)
	}
}

// A limit of 1 is one entry. A limit of 0 is all entries, also those that an earlier call has looked at.
func TestRedisSweepLimits(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{TTL: time.Hour})
	for _, session := range []string{"a", "b", "c"} {
		settle(t, s, claim(t, s, session).Lease, none, 0)
	}
	sweep := func(limit, want int) {
		t.Helper()
		if n := must[int](t)(s.Sweep(t.Context(), limit)); n != want {
			t.Errorf("removed %d, want %d", n, want)
		}
	}
	sweep(1, 0) // a is looked at
	check(t, s.client.Del(t.Context(), s.at("a"), s.at("b"), s.at("c")).Err())
	sweep(1, 1)
	sweep(0, 2)
}

// An idle session expires as a whole. A session that owes, or is under a live lease, stays.
func TestRedisExpired(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{TTL: 30 * time.Millisecond})
	for _, session := range []string{"idle", "owing", "owned"} {
		l := claim(t, s, session).Lease
		for n := range 3 {
			o := checkpoint.AppendOptions{
				Keep: 2, Owes: session == "owing" && n == 1, Release: session != "owned" && n == 2,
			}
			settle(t, s, l, o, n)
		}
	}
	s.awaitGone(t, "idle")
	s.wantLeft(t, "owing", forever, forever)
	s.wantLeft(t, "owned", time.Minute, time.Hour+time.Minute)
	if owing, all := list(t, s, true), list(t, s, false); fmt.Sprint(owing, all) != "[owing] [owing owned]" {
		t.Errorf("listed %q, and %q that owe", all, owing)
	}
	if n := must[int64](t)(s.client.ZCard(t.Context(), s.prefix+"{bot}:sessions").Result()); n != 2 {
		t.Errorf("%d entries are left in the index, want 2", n)
	}
}

// If a session has settled nothing, it expires, also where sessions have no TTL. With its first turn it stays.
func TestRedisUnsettledExpiry(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{})
	const week = checkpoint.DefaultUnsettled

	l := claim(t, s, "a").Lease
	s.wantLeft(t, "a", week+59*time.Minute, week+time.Hour)
	renew(t, s, 2*time.Hour, l)
	s.wantLeft(t, "a", week+119*time.Minute, week+2*time.Hour)
	mark(t, s, l, release)
	s.wantLeft(t, "a", week-time.Minute, week)
	l = claim(t, s, "a").Lease
	settle(t, s, l, none, 0)
	s.wantLeft(t, "a", forever, forever)
	mark(t, s, l, release)
	s.wantLeft(t, "a", forever, forever)

	// The shorter of both times counts.
	for _, o := range []redischeckpoint.Options{{TTL: time.Hour}, {TTL: 2 * time.Hour, Unsettled: time.Hour}} {
		s := redisOn(s.client, s.prefix, o)
		mark(t, s, claim(t, s, "b").Lease, release)
		s.wantLeft(t, "b", 59*time.Minute, time.Hour)
		l := claimFor(t, s, "c", time.Minute).Lease
		settle(t, s, l, checkpoint.AppendOptions{Release: true}, 0)
		s.wantLeft(t, "c", o.TTL-time.Minute, o.TTL)
		deleteAll(t, s, claim(t, s, "c").Lease)
	}
}

// If a session has expired, its former owner is fenced, and the next life has higher epochs.
func TestRedisUnsettledFenced(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{Unsettled: time.Millisecond})
	old := claimFor(t, s, "a", time.Millisecond).Lease
	s.awaitGone(t, "a")
	fenced := func() {
		t.Helper()
		want(t, s.Append(t.Context(), old, turn(0), none), lock.ErrFenced)
		want(t, s.Mark(t.Context(), old, checkpoint.Marks{}), lock.ErrFenced)
		if lost := renew(t, s, time.Hour, old); len(lost) != 1 {
			t.Error("the lease of a session that has expired is renewed")
		}
	}
	fenced()
	next := claim(t, s, "a")
	if next.Fence.Epoch <= old.Fence.Epoch || next.Born != next.Fence.Epoch {
		t.Errorf("claimed %+v after %+v had expired", next, old)
	}
	fenced()
	settle(t, s, next.Lease, none, 0)
}

// If sessions settle nothing and are deleted, they leave no key.
func TestRedisUnsettledDeleted(t *testing.T) {
	t.Parallel()
	s := newRedis(t, redischeckpoint.Options{})
	for i := range 200 {
		deleteAll(t, s, claim(t, s, fmt.Sprint("s", i)).Lease)
	}
	if keys := must[[]string](t)(s.client.Keys(t.Context(), s.prefix+"*").Result()); len(keys) > 0 {
		t.Errorf("%d keys stay, as %q", len(keys), keys[0])
	}
}
