package redissnapshot_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
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

// A Redis that lost its memory fences the owners of runs, and lists nothing.
func TestFlushAll(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	r := run("a", "run", fence(1))
	begin(t, s, r)
	check(t, client.FlushAll(ctx).Err())
	want(t, s.Save(ctx, step(r, 1)), lock.ErrFenced)
	check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
	_, err := s.Adopt(ctx, r.Key, fence(2), 9)
	want(t, err, snapshot.ErrNotFound)
	want(t, s.Delete(ctx, r.Key, r.ID, r.Fence), lock.ErrFenced)
	for r, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		t.Errorf("listed %s, %v", r.Session, err)
	}
	if keys := client.Keys(ctx, "*").Val(); len(keys) != 1 || keys[0] != "holdfast:{bot/a}:run" {
		t.Errorf("left: %q, want the fence that Adopt has brought", keys)
	}
	begin(t, s, run("a", "next", fence(3)))
}

// While the server is away, errors are the network's. If the server comes back without its memory, every former owner
// is fenced.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	srv, client := redistest.Server(t, redis.Options{MaxRetries: -1, DialerRetries: 1})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	r := run("a", "run", fence(1))
	begin(t, s, r)
	srv.Kill()
	_, began := s.Begin(ctx, run("b", "other", fence(1)))
	_, adopted := s.Adopt(ctx, r.Key, fence(2), 9)
	errs := []error{began, adopted, s.Save(ctx, step(r, 1)), s.Delete(ctx, r.Key, r.ID, r.Fence)}
	for _, session := range []string{"", "a"} {
		for _, err := range s.Runs(ctx, snapshot.Query{Key: key(session)}) {
			errs = append(errs, err)
		}
	}
	for i, err := range errs {
		if _, ok := errors.AsType[*net.OpError](err); !ok {
			t.Errorf("call %d: got %v, want an error of the network", i, err)
		}
	}
	srv.Restart()
	want(t, s.Save(ctx, step(r, 1)), lock.ErrFenced)
	begin(t, s, run("a", "next", fence(3)))
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
			r := run("a", "run", fence(1))
			begin(t, s, r)
			srv.Stop()
			defer srv.Continue()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			want(t, s.Save(ctx, step(r, 1)), context.DeadlineExceeded)

			cancelled, stop := context.WithCancelCause(t.Context())
			stop(why)
			err := s.Save(cancelled, step(r, 1))
			want(t, err, context.Canceled)
			want(t, err, why)
		})
	}
}

// A run that no store wrote is ErrDamaged, and the error says what is wrong.
func TestMalformed(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	ctx := t.Context()
	base := prefix + "{bot/a}:"
	r := run("a", "run", fence(1))
	renew := func() {
		check(t, client.Unlink(ctx, base+"run").Err())
		begin(t, s, r)
	}
	for field, value := range map[string]string{
		"attempt": "1.5", "seq": "007", "epoch": "x", "status": "done", "barred": "x",
	} {
		renew()
		check(t, client.HSet(ctx, base+"run", field, value).Err())
		wantDamaged(t, s, r, field, true)
	}
	for _, field := range []string{"id", "attempt", "status", "seq", "epoch", "nonce", "call", "entry", "parts"} {
		renew()
		check(t, client.HDel(ctx, base+"run", field).Err())
		wantDamaged(t, s, r, field, true)
	}
	for _, field := range []string{"request", "turn", "base", "error", "not_before", "payload", "started", "saved"} {
		renew()
		check(t, client.HDel(ctx, base+"run", field).Err())
		wantDamaged(t, s, r, field, false)
	}
	for field, value := range map[string]string{
		"turn": "-1", "request": "\xff", "payload": "{", "started": "now", "saved": "", "not_before": "soon",
	} {
		renew()
		check(t, client.HSet(ctx, base+"run", field, value).Err())
		wantDamaged(t, s, r, "", false)
	}
	renew()
	check(t, client.Del(ctx, base+"run").Err())
	check(t, client.Set(ctx, base+"run", "x", 0).Err())
	wantDamaged(t, s, r, "run", true)
	check(t, client.Del(ctx, prefix+"{bot}:inflight").Err())
	check(t, client.Set(ctx, prefix+"{bot}:inflight", "x", 0).Err())
	for _, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		want(t, err, snapshot.ErrDamaged)
	}
}

// The same holds for the row that a deleted run leaves, and for a part.
func TestMalformedRest(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix})
	ctx := t.Context()
	key := prefix + "{bot/a}:run"
	epoch := int64(0)
	deleted := func() snapshot.Run {
		epoch += 10
		r := run("a", fmt.Sprint("run", epoch), fence(epoch))
		begin(t, s, r)
		check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
		return r
	}
	for _, spoil := range []struct{ field, value string }{
		{"id", ""}, {"epoch", ""}, {"nonce", ""}, {"status", ""}, {"epoch", "x"}, {"status", "done"},
	} {
		r := deleted()
		check(t, client.HDel(ctx, key, spoil.field).Err())
		if spoil.value != "" {
			check(t, client.HSet(ctx, key, spoil.field, spoil.value).Err())
		}
		wantDamaged(t, s, r, "run with", true)
		check(t, client.Del(ctx, key).Err())
	}

	r := run("a", "parts", fence(epoch+1))
	r.Parts = parts("x", 1)
	begin(t, s, r)
	for field, value := range map[string]string{"part:x": "{", "part:": "1", "part:\xff": "1"} {
		check(t, client.HSet(ctx, key, field, value).Err())
		_, err := s.Adopt(ctx, r.Key, r.Fence, 9)
		want(t, err, snapshot.ErrDamaged)
		check(t, client.HSet(ctx, key, "part:x", "1").Err())
		if field != "part:x" {
			check(t, client.HDel(ctx, key, field).Err())
		}
		_, err = s.Adopt(ctx, r.Key, r.Fence, 9)
		check(t, err)
	}
}

// wantDamaged tries each call that tells the run, and each call that only decides by it.
func wantDamaged(t *testing.T, s *redissnapshot.Store, r snapshot.Run, what string, deciding bool) {
	t.Helper()
	ctx := t.Context()
	var errs []error
	for _, session := range []string{"", "a"} {
		for _, err := range s.Runs(ctx, snapshot.Query{Key: key(session)}) {
			errs = append(errs, err)
		}
	}
	_, began := s.Begin(ctx, run("a", "other", fence(2)))
	if errs = append(errs, began); deciding {
		errs = append(errs, s.Save(ctx, step(r, 1)))
	}
	for i, err := range errs {
		if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: call %d: got %v, want %v", what, i, err, snapshot.ErrDamaged)
		}
	}
	remedy(t, s, r)
}

// remedy adopts a damaged run, which mends its fence, and deletes it.
func remedy(t *testing.T, s *redissnapshot.Store, r snapshot.Run) {
	t.Helper()
	ctx := t.Context()
	f := fence(r.Fence.Epoch + 1)
	_, err := s.Adopt(ctx, r.Key, f, 9)
	if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
		want(t, err, snapshot.ErrDamaged)
	}
	check(t, s.Delete(ctx, r.Key, r.ID, f))
	for _, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		t.Errorf("it stays: %v", err)
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
	r := run("a", "run", c.Lease.Fence)
	begin(t, s, r)
	owes := checkpoint.AppendOptions{Owes: true}
	check(t, turns.Append(ctx, c.Lease, checkpoint.Checkpoint{RunID: "run", State: []byte(`{}`)}, owes))
	_, err = checkpoint.Load(ctx, turns, c.Lease.Key, 0)
	check(t, err)
	check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
	check(t, turns.Delete(ctx, c.Lease))
	begin(t, s, run("a", "next", lock.Fence{Epoch: c.Lease.Fence.Epoch + 1, Nonce: "next"}))
}
