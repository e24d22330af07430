package snapshot_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redissnapshot"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// The hash of a session without a run is small, and expires. A run in flight never expires, also if the session had a
// run before.
func TestRemember(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	ctx, key := t.Context(), prefix+"{bot/a}:run"
	opened := func(remember time.Duration) *redissnapshot.Store {
		return redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix, Remember: remember})
	}
	turn := func(remember time.Duration, epoch int64) {
		t.Helper()
		s := opened(remember)
		r := runAs("a", fmt.Sprint("run", epoch), epoch)
		r.Parts = parts("x", 1)
		begin(t, s, r)
		if left := client.PTTL(ctx, key).Val(); left != -1 {
			t.Fatalf("a run in flight has %v left", left)
		}
		check(t, remove(ctx, s, r))
	}
	left := func(most time.Duration) {
		t.Helper()
		if got := client.PTTL(ctx, key).Val(); got < most-time.Minute || got > most {
			t.Errorf("what is kept has %v left, want %v", got, most)
		}
		fields := client.HKeys(ctx, key).Val()
		if slices.Sort(fields); !slices.Equal(fields, []string{"barred", "epoch", "found", "id", "nonce", "status"}) {
			t.Errorf("kept %q", fields)
		}
	}
	turn(0, 5)
	left(snapshot.DefaultRemember)
	want(t, take(ctx, opened(2*time.Hour), "a", 5), snapshot.ErrNotFound)
	left(2 * time.Hour)
	check(t, client.Del(ctx, key).Err())
	want(t, take(ctx, opened(2*time.Hour), "a", 1), snapshot.ErrNotFound)
	left(2 * time.Hour)
	turn(time.Hour, 6)
	left(time.Hour)
	turn(time.Minute, 7) // no less than an hour
	left(time.Hour)
	check(t, client.Del(ctx, key).Err()) // as if the hour had passed
	turn(time.Minute, 1)
}

// An added part costs the same in every run, however much the run has: in commands that the script calls, and in bytes
// on the wire.
func TestPartCosts(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	check(t, s.Save(ctx, adding(begin(t, s, run("warm")), "x")))
	cost := func(session string, others int) map[string]int {
		r := runAs(session, "run", 1)
		r.Payload = []byte("[" + strings.Repeat("1,", 100*others) + "1]")
		r.Parts = parts("part", 0)
		for n := range others {
			r.Parts[fmt.Sprint("part", n)] = r.Payload
		}
		begin(t, s, r)
		check(t, client.ConfigResetStat(ctx).Err())
		check(t, s.Save(ctx, adding(r, "new")))
		stats := redistest.Stats(t, client)
		got, err := s.Adopt(ctx, r.Key, fence(2), 9)
		check(t, err)
		if len(got.Parts) != others+2 || string(got.Payload) != string(r.Payload) {
			t.Errorf("%d parts, want %d, and %d bytes of payload", len(got.Parts), others+2, len(got.Payload))
		}
		return stats
	}
	if few, many := cost("a", 0), cost("b", 300); !maps.Equal(few, many) {
		t.Errorf("beside 1 part %v, beside 300 %v", few, many)
	}
}

// A run may have more parts than Lua takes at once. All are written, told and removed.
func TestManyParts(t *testing.T) {
	t.Parallel()
	s, _, _ := newRedis(t)
	r := run("a")
	wantParts := func(want int) {
		t.Helper()
		got, err := s.Adopt(t.Context(), r.Key, r.Fence, 9)
		check(t, err)
		if len(got.Parts) != want {
			t.Errorf("%d parts, want %d", len(got.Parts), want)
		}
	}
	const many = 9000
	r.Parts = make(map[string]json.RawMessage)
	for n := range many {
		r.Parts[fmt.Sprint(n)] = json.RawMessage(`0`)
	}
	begin(t, s, r)
	wantParts(many)
	check(t, s.Save(t.Context(), adding(r, "new")))
	wantParts(many + 1)
	check(t, s.Save(t.Context(), step(r, 2)))
	wantParts(0)
}
