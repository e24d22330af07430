package redischeckpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// If a session has settled nothing, it expires, also where sessions have no TTL. With its first turn it stays.
func TestUnsettledExpiry(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	c := clocks{t, client, prefix}
	ctx := t.Context()
	const week = checkpoint.DefaultUnsettled

	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n1", time.Hour))).Lease
	c.want("a", week+59*time.Minute, week+time.Hour)
	must[[]checkpoint.Lease](t)(s.Renew(ctx, 2*time.Hour, []checkpoint.Lease{l}))
	c.want("a", week+119*time.Minute, week+2*time.Hour)
	check(t, s.Mark(ctx, l, checkpoint.Marks{Release: true}))
	c.want("a", week-time.Minute, week)
	l = must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n2", time.Hour))).Lease
	check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{}))
	c.want("a", forever, forever)
	check(t, s.Mark(ctx, l, checkpoint.Marks{Release: true}))
	c.want("a", forever, forever)

	// The shorter of both times counts.
	for _, o := range []redischeckpoint.Options{{TTL: time.Hour}, {TTL: 2 * time.Hour, Unsettled: time.Hour}} {
		o.Prefix = prefix
		s := redischeckpoint.New(client, &o)
		check(t, s.Mark(ctx, must[checkpoint.Claimed](t)(s.Claim(ctx, key("b"), request("n", time.Hour))).Lease,
			checkpoint.Marks{Release: true}))
		c.want("b", 59*time.Minute, time.Hour)
		l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("c"), request("n", time.Minute))).Lease
		check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{Release: true}))
		c.want("c", o.TTL-time.Minute, o.TTL)
		check(t, s.Delete(ctx, must[checkpoint.Claimed](t)(s.Claim(ctx, key("c"), request("m", time.Minute))).Lease))
	}
}

// If a session has expired, its former owner is fenced, and the next life has higher epochs.
func TestUnsettledFenced(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix, Unsettled: time.Millisecond})
	c := clocks{t, client, prefix}
	old := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("old", time.Millisecond))).Lease
	for deadline := time.Now().Add(10 * time.Second); c.left("a") != gone; {
		if time.Now().After(deadline) {
			t.Fatal("a session that settled nothing does not expire")
		}
	}
	fenced := func() {
		t.Helper()
		want(t, s.Append(t.Context(), old, turn(0, "r0"), checkpoint.AppendOptions{}), lock.ErrFenced)
		want(t, s.Mark(t.Context(), old, checkpoint.Marks{}), lock.ErrFenced)
		if lost := must[[]checkpoint.Lease](t)(
			s.Renew(t.Context(), time.Hour, []checkpoint.Lease{old})); len(lost) != 1 {
			t.Error("the lease of a session that has expired is renewed")
		}
	}
	fenced()
	next := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("new", time.Hour)))
	if next.Fence.Epoch <= old.Fence.Epoch || next.Born != next.Fence.Epoch {
		t.Errorf("claimed %+v after %+v had expired", next, old)
	}
	fenced()
	check(t, s.Append(t.Context(), next.Lease, turn(0, "r0"), checkpoint.AppendOptions{}))
}

// If sessions settle nothing and are deleted, they leave no key.
func TestUnsettledDeleted(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	for i := range 200 {
		l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key(fmt.Sprint("s", i)), request("n", time.Hour))).Lease
		check(t, s.Delete(t.Context(), l))
	}
	if keys := must[[]string](t)(client.Keys(t.Context(), prefix+"*").Result()); len(keys) > 0 {
		t.Errorf("%d keys stay, as %q", len(keys), keys[0])
	}
}
