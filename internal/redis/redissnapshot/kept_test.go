package redissnapshot_test

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
	ctx := t.Context()
	key := prefix + "{bot/a}:run"
	turn := func(o redissnapshot.Options, id string, epoch int64) {
		t.Helper()
		o.Prefix = prefix
		s := redissnapshot.New(client, &o)
		r := run("a", id, fence(epoch))
		r.Parts = parts("x", 1)
		begin(t, s, r)
		if left := client.PTTL(ctx, key).Val(); left != -1 {
			t.Fatalf("a run in flight has %v left", left)
		}
		check(t, s.Delete(ctx, r.Key, r.ID, r.Fence))
	}
	left := func(least, most time.Duration) {
		t.Helper()
		if got := client.PTTL(ctx, key).Val(); got < least || got > most {
			t.Errorf("what is kept has %v left, want %v to %v", got, least, most)
		}
	}
	small := func() {
		t.Helper()
		fields := client.HKeys(ctx, key).Val()
		if slices.Sort(fields); !slices.Equal(fields, []string{"barred", "epoch", "found", "id", "nonce", "status"}) {
			t.Errorf("kept %q", fields)
		}
	}
	turn(redissnapshot.Options{}, "first", 5)
	left(snapshot.DefaultRemember-time.Minute, snapshot.DefaultRemember)
	small()
	hours := redissnapshot.New(client, &redissnapshot.Options{Prefix: prefix, Remember: 2 * time.Hour})
	adopt := func(epoch int64) {
		t.Helper()
		_, err := hours.Adopt(ctx, snapshot.Key{Orchestrator: "bot", Session: "a"}, fence(epoch), 9)
		want(t, err, snapshot.ErrNotFound)
	}
	adopt(5)
	left(2*time.Hour-time.Minute, 2*time.Hour)
	small()
	check(t, client.Del(ctx, key).Err())
	adopt(1)
	left(2*time.Hour-time.Minute, 2*time.Hour)
	small()
	turn(redissnapshot.Options{Remember: time.Hour}, "second", 6)
	left(time.Hour-time.Minute, time.Hour)

	brief := redissnapshot.Options{Remember: time.Minute} // no less than an hour
	turn(brief, "third", 7)
	left(time.Hour-time.Minute, time.Hour)
	check(t, client.Del(ctx, key).Err()) // as if the hour had passed
	turn(brief, "forgotten", 1)
}

// An added part costs the same in every run, however much the run has: in commands that the script calls, and in bytes
// on the wire.
func TestPartCosts(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{PoolSize: 1})
	s := redissnapshot.New(client, nil)
	ctx := t.Context()
	begin(t, s, run("warm", "run", fence(1)))
	check(t, s.Save(ctx, adds(run("warm", "run", fence(1)), 1, parts("x", 1))))
	cost := func(session string, others int) map[string]int {
		r := run(session, "run", fence(1))
		r.Payload = []byte("[" + strings.Repeat("1,", 100*others) + "1]")
		r.Parts = parts("part", 0)
		for n := range others {
			r.Parts[fmt.Sprint("part", n)] = r.Payload
		}
		begin(t, s, r)
		check(t, client.ConfigResetStat(ctx).Err())
		check(t, s.Save(ctx, adds(r, 1, parts("new", 1))))
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
	s := newStore(t)
	ctx := t.Context()
	r := run("a", "run", fence(1))
	adopted := func() int {
		got, err := s.Adopt(ctx, r.Key, r.Fence, 9)
		check(t, err)
		return len(got.Parts)
	}
	const many = 9000
	r.Parts = make(map[string]json.RawMessage)
	for n := range many {
		r.Parts[fmt.Sprint(n)] = json.RawMessage(`0`)
	}
	begin(t, s, r)
	if got := adopted(); got != many {
		t.Errorf("began with %d parts, want %d", got, many)
	}
	check(t, s.Save(ctx, adds(r, 1, parts("new", 1))))
	if got := adopted(); got != many+1 {
		t.Errorf("%d parts, want %d", got, many+1)
	}
	check(t, s.Save(ctx, step(r, 2)))
	if got := adopted(); got != 0 {
		t.Errorf("%d parts are left", got)
	}
}
