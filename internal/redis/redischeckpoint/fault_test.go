package redischeckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}

// A Redis that lost its memory fences the owners of its sessions, and lists nothing.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	for _, o := range []checkpoint.AppendOptions{{}, {Owes: true}} {
		first := must[checkpoint.Claimed](t)(s.Claim(ctx, key("first"), request("n1", time.Hour))).Lease
		later := must[checkpoint.Claimed](t)(s.Claim(ctx, key("later"), request("n2", time.Hour))).Lease
		check(t, s.Append(ctx, later, turn(0, "r0"), o))
		check(t, client.FlushAll(ctx).Err())
		want(t, s.Append(ctx, first, turn(0, "r0"), o), lock.ErrFenced)
		want(t, s.Append(ctx, later, turn(1, "r1"), o), lock.ErrFenced)
		want(t, s.Mark(ctx, later, checkpoint.Marks{Delivered: 1}), lock.ErrFenced)
		for _, owing := range []bool{false, true} {
			for id, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot", Owing: owing}) {
				t.Errorf("listed %q, %v", id, err)
			}
		}
		if keys := client.Keys(ctx, "*").Val(); len(keys) > 0 {
			t.Errorf("left: %q", keys)
		}
	}
}

// While the server is away, errors come from the network. When it is back without its memory, every former owner is
// fenced.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	srv, client := redistest.Server(t, redis.Options{MaxRetries: -1, DialerRetries: 1})
	s := redischeckpoint.New(client, nil)
	ctx := t.Context()
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n", time.Hour))).Lease
	check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{}))
	srv.Kill()
	_, claim := s.Claim(ctx, key("a"), request("other", time.Hour))
	lost, renew := s.Renew(ctx, time.Hour, []checkpoint.Lease{l})
	if len(lost) > 0 {
		t.Errorf("lost %v", lost)
	}
	for _, err := range []error{
		claim, renew, s.Append(ctx, l, turn(1, "r1"), checkpoint.AppendOptions{}),
		s.Mark(ctx, l, checkpoint.Marks{Release: true}), s.Delete(ctx, l),
	} {
		if _, ok := errors.AsType[*net.OpError](err); !ok {
			t.Errorf("got %v, want an error of the network", err)
		}
	}
	srv.Restart()
	want(t, s.Append(ctx, l, turn(1, "r1"), checkpoint.AppendOptions{}), lock.ErrFenced)
	if c := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("next", time.Hour))); c.Born <= l.Fence.Epoch ||
		c.Last != nil {
		t.Errorf("claimed %+v", c)
	}
}

// If ctx ends, the error says so, however the client reports it.
func TestContextEnds(t *testing.T) {
	t.Parallel()
	why := errors.New("shutting down")
	for name, o := range map[string]redis.Options{
		"client honours deadlines": {ContextTimeoutEnabled: true},
		"client times out":         {ReadTimeout: 200 * time.Millisecond, MaxRetries: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, client := redistest.Server(t, o)
			s := redischeckpoint.New(client, nil)
			l := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key("a"), request("n", time.Hour))).Lease
			srv.Stop()
			defer srv.Continue()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			want(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{}), context.DeadlineExceeded)

			cancelled, stop := context.WithCancelCause(t.Context())
			stop(why)
			err := s.Mark(cancelled, l, checkpoint.Marks{})
			want(t, err, context.Canceled)
			want(t, err, why)
		})
	}
}

// Data that no store wrote is ErrDamaged, and the error names the fault.
func TestMalformed(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	ctx := t.Context()
	base := prefix + "{bot/a}:"
	begin := func() checkpoint.Lease {
		check(t, client.Unlink(ctx, base+"session").Err())
		l := must[checkpoint.Claimed](t)(s.Claim(ctx, key("a"), request("n", time.Hour))).Lease
		check(t, s.Append(ctx, l, turn(0, "r0"), checkpoint.AppendOptions{Owes: true}))
		check(t, s.Mark(ctx, l, checkpoint.Marks{Retry: time.Hour}))
		return l
	}
	for _, field := range []string{
		"epoch", "lease", "born", "turn", "first", "summarized", "owed", "failed", "retry", "tried",
	} {
		l := begin()
		check(t, client.HSet(ctx, base+"session", field, "x").Err())
		wantDamaged(t, s, l, field)
	}
	for _, field := range []string{"nonce", "epoch", "owing"} {
		l := begin()
		check(t, client.HDel(ctx, base+"session", field).Err())
		wantDamaged(t, s, l, field)
	}
	l := begin()
	check(t, client.Del(ctx, base+"session").Err())
	check(t, client.Set(ctx, base+"session", "x", 0).Err())
	wantDamaged(t, s, l, "head")

	for field, value := range map[string]string{
		"0": `{"layout":2}`, "0:at": "now", "0:run": "", "0:state": `{`, "0:payload": `[`, "0:req": "\xff",
	} {
		begin()
		check(t, client.HSet(ctx, base+"session", field, value).Err())
		wantDamagedRow(t, s)
	}
	begin()
	for _, field := range []string{"0", "0:at", "0:run", "0:req", "0:state", "0:payload"} {
		check(t, client.HDel(ctx, base+"session", field).Err())
	}
	wantDamagedRow(t, s)
}

func wantDamaged(t *testing.T, s *redischeckpoint.Store, l checkpoint.Lease, what string) {
	t.Helper()
	_, claim := s.Claim(t.Context(), l.Key, request("other", time.Hour))
	_, renew := s.Renew(t.Context(), time.Hour, []checkpoint.Lease{l})
	_, load := checkpoint.Load(t.Context(), s, l.Key, 0)
	for _, err := range []error{
		claim, renew, load, s.Append(t.Context(), l, turn(1, "r1"), checkpoint.AppendOptions{}),
		s.Mark(t.Context(), l, checkpoint.Marks{}),
	} {
		if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v, want %v", what, err, checkpoint.ErrDamaged)
		}
	}
	check(t, s.Delete(t.Context(), l))
}

func wantDamagedRow(t *testing.T, s *redischeckpoint.Store) {
	t.Helper()
	_, claim := s.Claim(t.Context(), key("a"), request("n", time.Hour))
	_, load := checkpoint.Load(t.Context(), s, key("a"), 0)
	for _, err := range []error{claim, load} {
		want(t, err, checkpoint.ErrDamaged)
	}
}

// A claim and a settle cost the same whether a session keeps 10 turns or 5,000, in commands that the scripts call, and
// in bytes that come back.
func TestCostIsFlat(t *testing.T) {
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
	k := key(fmt.Sprintf("s%04d", n))
	l := must[checkpoint.Claimed](t)(s.Claim(ctx, k, request("n1", time.Hour))).Lease
	const last = 6100
	for i := range last {
		check(t, s.Append(ctx, l, turn(i, fmt.Sprintf("r%04d", i)), checkpoint.AppendOptions{Keep: n}))
	}
	check(t, s.Mark(ctx, l, checkpoint.Marks{Release: true}))

	check(t, client.ConfigResetStat(ctx).Err())
	r := request("n2", time.Hour)
	r.RequestID = fmt.Sprintf("req-r%04d", last-n)
	c := must[checkpoint.Claimed](t)(s.Claim(ctx, k, r))
	if c.Answered == nil || c.Answered.Turn != last-n {
		t.Fatalf("answered by %+v", c.Answered)
	}
	check(t, s.Append(ctx, c.Lease, turn(last, "r6100"), checkpoint.AppendOptions{Keep: n}))
	stats := redistest.Stats(t, client)
	delete(stats, "total_net_input_bytes") // n has not the same number of digits in both
	return stats
}
