package redissnapshot_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/snapshot"
)

// At maxmemory a call that adds to a run is refused, and leaves no trace. A call that adopts, lists or deletes a run
// passes. Otherwise it would be impossible to make room.
func TestMaxmemory(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	for _, session := range []string{"a", "b", "c", "over"} {
		begin(t, s, run(session, "run", fence(1)))
	}
	// The run's entry in the index stays for a while.
	check(t, s.Delete(ctx, key("over"), "run", fence(1)))
	redistest.Fill(t, client)

	before := redistest.Digest(t, client)
	_, err := redissnapshot.New(client, nil).Begin(ctx, run("new", "run", fence(2)))
	want(t, err, snapshot.ErrRefused)
	want(t, s.Save(ctx, adds(run("a", "run", fence(1)), 1, parts("x", 1))), snapshot.ErrRefused)
	want(t, s.Save(ctx, step(run("a", "run", fence(1)), 1)), snapshot.ErrRefused)
	if after := redistest.Digest(t, client); after != before {
		t.Error("what was refused has left something")
	}
	_, err = s.Begin(ctx, run("over", "next", fence(2)))
	want(t, err, snapshot.ErrRefused)

	if found, err := s.Begin(ctx, run("a", "other", fence(2))); err != nil || found == nil {
		t.Errorf("found %v, %v", found, err)
	}
	_, err = s.Adopt(ctx, key("a"), fence(3), 9)
	check(t, err)
	for _, session := range []string{"over", "new"} {
		if _, err = s.Adopt(ctx, key(session), fence(3), 9); !errors.Is(err, snapshot.ErrNotFound) {
			t.Errorf("adopted in %q: %v", session, err)
		}
	}
	check(t, s.Delete(ctx, key("a"), "run", fence(3)))
	check(t, s.Delete(ctx, key("b"), "run", fence(1)))
	var left []string
	for r, err := range s.Runs(ctx, snapshot.Query{Key: key("")}) {
		check(t, err)
		left = append(left, r.Session)
	}
	if len(left) != 1 || left[0] != "c" {
		t.Errorf("%q are left", left)
	}
}
