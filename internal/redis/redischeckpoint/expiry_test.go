package redischeckpoint_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

type clocks struct {
	t      *testing.T
	client *redis.Client
	prefix string
}

// left returns the lifetime of a session.
func (c clocks) left(session string) time.Duration {
	c.t.Helper()
	left, err := c.client.PTTL(c.t.Context(), c.prefix+"{bot/"+session+"}:session").Result()
	check(c.t, err)
	return left
}

func (c clocks) want(session string, least, most time.Duration) {
	c.t.Helper()
	if left := c.left(session); left < least || left > most+time.Second {
		c.t.Fatalf("session %q has %v, want %v to %v", session, left, least, most)
	}
}

const forever, gone = time.Duration(-1), time.Duration(-2)

// A session expires a TTL after its lease ends, and not while it owes.
func TestExpiry(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, TTL: time.Hour})
	c := clocks{t, client, prefix}
	ctx := t.Context()

	owed := checkpoint.AppendOptions{Owes: true}
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n1", 2*time.Hour))).Lease
	check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{}))
	c.want("a", 2*time.Hour+59*time.Minute, 3*time.Hour)
	check(t, s.Append(ctx, l, turn(1, "r1"), owed))
	c.want("a", forever, forever)
	must[[]checkpoint.Lease](t)(s.Renew(ctx, time.Hour, []checkpoint.Lease{l}))
	c.want("a", forever, forever)
	check(t, s.Mark(ctx, l, checkpoint.Marks{Delivered: 2}))
	c.want("a", time.Hour+59*time.Minute, 2*time.Hour)
	must[[]checkpoint.Lease](t)(s.Renew(ctx, 4*time.Hour, []checkpoint.Lease{l}))
	c.want("a", 4*time.Hour+59*time.Minute, 5*time.Hour)
	check(t, s.Mark(ctx, l, checkpoint.Marks{Release: true}))
	c.want("a", 59*time.Minute, time.Hour)

	patient := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	must[checkpoint.Claimed](t)(patient.Claim(ctx, key("a"), request("n2", time.Hour)))
	c.want("a", forever, forever)
}

// The longest TTL is as good as none: nothing expires.
func TestLongestTTL(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{
		Prefix: prefix, TTL: math.MaxInt64, Unsettled: math.MaxInt64,
	})
	ctx := t.Context()
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n1", time.Hour))).Lease
	_, err := s.Claim(ctx, key("a"), request("n2", time.Hour))
	want(t, err, lock.ErrHeld)
	check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{Release: true}))
	must[checkpoint.Head](t)(s.Head(ctx, key("a")))
}

// If sessions have expired, nothing of them is left once Sweep has passed. One call looks at no more entries than its
// limit.
func TestSweep(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	ctx := t.Context()
	s := redischeckpoint.New(client, &redischeckpoint.Options{TTL: time.Millisecond})
	const gone, live = 2000, 10
	for i := range gone + live {
		l := must[checkpoint.Claimed](t)(s.Claim(ctx, key(fmt.Sprintf("s%04d", i)), request("n", time.Hour))).Lease
		check(t, s.Append(ctx, l, turn(0, "r"), checkpoint.AppendOptions{Release: i < gone}))
	}
	entries := func() int64 { return client.ZCard(ctx, "holdfast:{bot}:sessions").Val() }
	if n := entries(); n != gone+live {
		t.Fatalf("%d entries, want %d", n, gone+live)
	}
	removed := 0
	for deadline := time.Now().Add(30 * time.Second); entries() > live; {
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
func TestSweepLimits(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, TTL: time.Hour})
	ctx := t.Context()
	for _, session := range []string{"a", "b", "c"} {
		l := must[checkpoint.Claimed](t)(s.Claim(ctx, key(session), request("n", time.Hour))).Lease
		check(t, s.Append(ctx, l, turn(0, "r"), checkpoint.AppendOptions{}))
	}
	expire := func(session string) { check(t, client.Del(ctx, prefix+"{bot/"+session+"}:session").Err()) }
	sweep := func(limit, want int) {
		t.Helper()
		if n := must[int](t)(s.Sweep(ctx, limit)); n != want {
			t.Errorf("removed %d, want %d", n, want)
		}
	}
	sweep(1, 0) // a is looked at
	expire("a")
	expire("b")
	expire("c")
	sweep(1, 1)
	sweep(0, 2)
}

// An idle session expires as a whole. A session that owes, or is under a live lease, stays.
func TestExpired(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, TTL: 30 * time.Millisecond})
	c := clocks{t, client, prefix}
	for _, session := range []string{"idle", "owing", "owned"} {
		l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key(session), request("n", time.Hour))).Lease
		for n := range 3 {
			o := checkpoint.AppendOptions{
				Keep: 2, Owes: session == "owing" && n == 1, Release: session != "owned" && n == 2,
			}
			check(t, s.Append(t.Context(), l, turn(n, fmt.Sprint("r", n)), o))
		}
	}
	for deadline := time.Now().Add(10 * time.Second); c.left("idle") != gone; {
		if time.Now().After(deadline) {
			t.Fatal("an idle session does not expire")
		}
	}
	c.want("owing", forever, forever)
	c.want("owned", time.Minute, time.Hour+time.Minute)
	for _, owing := range []bool{false, true} {
		got := []string{}
		for id, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
			check(t, err)
			got = append(got, id)
		}
		want := []string{"owing"}
		if !owing {
			want = []string{"owing", "owned"}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("owing %v: listed %q, want %q", owing, got, want)
		}
	}
	if n := must[int64](t)(client.ZCard(t.Context(), prefix+"{bot}:sessions").Result()); n != 2 {
		t.Errorf("%d entries are left in the index, want 2", n)
	}
}
