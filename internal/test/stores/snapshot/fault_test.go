package snapshot_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A server that dies in the middle of a call costs an error, and the repeat tells what became of the call.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	t.Run("postgres", killPostgres)
	t.Run("redis", killRedis)
}

func killPostgres(t *testing.T) {
	t.Parallel()
	server, _, s := private(t, nil)
	r := begin(t, s, run("a"))
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		server.Kill()
	}()
	var err error
	for err == nil {
		r.Seq++
		err = s.Save(t.Context(), r)
	}
	<-killed
	for _, verdict := range []error{
		lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrInvalid, snapshot.ErrSchema, snapshot.ErrParked,
	} {
		if errors.Is(err, verdict) {
			t.Errorf("a dead server is reported as %v", err)
		}
	}
	server.Restart()
	// The loop ends when the pool has noticed which of its connections are dead.
	for err = errors.New("not tried"); err != nil; {
		if err = s.Save(t.Context(), r); errors.Is(err, lock.ErrFenced) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Adopt(t.Context(), r.Key, r.Fence, 3)
	if err != nil || got.Seq != r.Seq {
		t.Errorf("after the repeat the run is at %d, want %d: %v", got.Seq, r.Seq, err)
	}
}

// While Redis is away, errors are the network's. If it comes back without its memory, every former owner is fenced.
func killRedis(t *testing.T) {
	t.Parallel()
	srv, client := redistest.Server(t, redis.Options{MaxRetries: -1, DialerRetries: 1})
	s := redissnapshot.New(client, nil)
	r := begin(t, s, run("a"))
	srv.Kill()
	for call, err := range calls(t.Context(), s) {
		if _, ok := errors.AsType[*net.OpError](err); !ok {
			t.Errorf("%s: got %v, want an error of the network", call, err)
		}
	}
	srv.Restart()
	want(t, s.Save(t.Context(), next(r)), lock.ErrFenced)
	begin(t, s, runAs("a", "next", 3))
}

// A Redis that lost its memory fences the owners of runs, and lists nothing.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	r := begin(t, s, run("a"))
	check(t, client.FlushAll(ctx).Err())
	want(t, s.Save(ctx, next(r)), lock.ErrFenced)
	check(t, remove(ctx, s, r))
	want(t, take(ctx, s, "a", 2), snapshot.ErrNotFound)
	want(t, remove(ctx, s, r), lock.ErrFenced)
	if left := listed(t, s, ""); len(left) > 0 {
		t.Errorf("listed %q", left)
	}
	if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 || keys[0] != "holdfast:{bot/a}:run" {
		t.Errorf("left: %q, want the fence that Adopt has brought", keys)
	}
	begin(t, s, runAs("a", "next", 3))
}

// The error of a call shows the end of ctx, however the client reports that end.
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
			s := redissnapshot.New(client, nil)
			r := begin(t, s, run("a"))
			srv.Stop()
			defer srv.Continue()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			want(t, s.Save(ctx, next(r)), context.DeadlineExceeded)

			cancelled, stop := context.WithCancelCause(t.Context())
			stop(why)
			err := s.Save(cancelled, next(r))
			want(t, err, context.Canceled)
			want(t, err, why)
		})
	}
}

// Both stores may live under one prefix, with the same sessions.
func TestBesideCheckpoints(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	ctx := t.Context()
	turns := redischeckpoint.New(client, &redischeckpoint.Options{Prefix: prefix})
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	c, err := turns.Claim(ctx, key("a"),
		checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Hour})
	check(t, err)
	r := run("a")
	r.Fence = c.Lease.Fence
	begin(t, s, r)
	owes := checkpoint.AppendOptions{Owes: true}
	check(t, turns.Append(ctx, c.Lease, checkpoint.Checkpoint{RunID: r.ID, State: []byte(`{}`)}, owes))
	_, err = checkpoint.Load(ctx, turns, c.Lease.Key, 0)
	check(t, err)
	check(t, remove(ctx, s, r))
	check(t, turns.Delete(ctx, c.Lease))
	begin(t, s, runAs("a", "next", c.Lease.Fence.Epoch+1))
}
