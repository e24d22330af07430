package redischeckpoint_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// At maxmemory a call that adds to a session is refused, and leaves no trace. A call that gives a session back, keeps
// it, takes it over or removes it passes. Otherwise there would be no way to make room.
func TestMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	owes := checkpoint.AppendOptions{Owes: true}
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n", time.Hour))).Lease
	check(t, s.Append(ctx, l, turn(0, "r0"), owes))
	check(t, s.Append(ctx, l, turn(1, "r1"), owes))
	unsettled := must[checkpoint.Claimed](t)(s.Claim(ctx, key("b"), request("n", time.Hour))).Lease
	redistest.Fill(t, client)

	before := redistest.Digest(t, client)
	_, err := s.Claim(ctx, key("new"), request("n", time.Hour))
	want(t, err, checkpoint.ErrRefused)
	want(t, s.Append(ctx, l, turn(2, "r2"), checkpoint.AppendOptions{Keep: 1}), checkpoint.ErrRefused)
	want(t, s.Append(ctx, l, turn(2, "r2"), checkpoint.AppendOptions{Release: true}), checkpoint.ErrRefused)
	want(t, s.Append(ctx, unsettled, turn(0, "r0"), owes), checkpoint.ErrRefused)
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}

	check(t, s.Append(ctx, l, turn(1, "r1"), owes)) // a repeat is told
	lost, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{l, unsettled})
	if check(t, err); len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	check(t, s.Mark(ctx, l, checkpoint.Marks{Retry: time.Hour}))
	check(t, s.Mark(ctx, l, checkpoint.Marks{Delivered: 1, Summarized: 1}))
	check(t, s.Mark(ctx, l, checkpoint.Marks{Delivered: 2}))
	r := request("taken", time.Hour)
	r.From = l.Fence
	l = must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), r)).Lease
	check(t, s.Mark(ctx, l, checkpoint.Marks{Release: true}))
	l = must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("again", time.Hour))).Lease
	for _, owing := range []bool{false, true} {
		list(t, s, owing)
	}
	check(t, s.Delete(ctx, unsettled))
	check(t, s.Delete(ctx, l))
	if n := client.DBSize(ctx).Val(); n != 0 {
		t.Errorf("%d keys are left: %q", n, client.Keys(ctx, "*").Val())
	}
}
