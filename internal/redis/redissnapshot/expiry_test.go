package redissnapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A request names the time at which its entry was seen or barred. If that time is too long ago, the request is refused.
func TestTooLate(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	ctx := t.Context()
	r := snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: "a"}, ID: "run", Attempt: 1, Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}
	ago := func(at string, d time.Duration) string {
		var us int64
		if _, err := fmt.Sscan(at, &us); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(us - d.Microseconds())
	}
	tokenOf := func() string {
		page, err := s.redis.List(ctx, s.indexKey("bot"), "-", "+", 1)
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		return page[0].Token
	}

	first, seen, err := s.redis.Enter(ctx, s.indexKey("bot"), "a", redisstore.Barred{At: "0"}, "0")
	if err != nil || first != tokenOf() {
		t.Fatal(first, err)
	}
	above := ""
	for _, c := range []struct {
		late time.Duration
		want string
	}{{21 * time.Minute, "INDEX"}, {0, "INDEX"}} { // the second because the first has barred the entry
		reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key),
			append([]any{"call", first, ago(seen, c.late)}, encode(r)...)...)
		if err != nil || reply.Status != c.want {
			t.Fatalf("begin %v late: %v, %v", c.late, reply, err)
		}
		above = reply.Values[1]
	}
	late := entryOf("a", first, ago(seen, 21*time.Minute))
	if got, _, err := s.redis.Enter(ctx, s.indexKey("bot"), "a", late, above); err != nil || got != first {
		t.Fatal("replaced by who is late:", got, err)
	}
	second, _, err := s.redis.Enter(ctx, s.indexKey("bot"), "a", entryOf("a", first, ago(seen, 19*time.Minute)), above)
	if err != nil || second == first || second != tokenOf() {
		t.Fatal("not replaced:", second, err)
	}
	reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key),
		append([]any{"call", second, ago(seen, 19*time.Minute)}, encode(r)...)...)
	if err != nil || reply.Status != "OK" {
		t.Fatal(reply, err)
	}
	for _, b := range []redisstore.Barred{
		entryOf("a", second, ago(seen, 21*time.Minute)), entryOf("a", first, seen), entryOf("b", second, seen),
	} {
		if err := s.redis.Drop(ctx, s.indexKey("bot"), b); err != nil || tokenOf() != second {
			t.Fatalf("%v dropped the entry, %v", b, err)
		}
	}
}

// A token is above every token that the session has barred, also if the clock of the index has stepped back.
func TestIndexClockBehind(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	ctx := t.Context()
	begin := func(epoch int64) {
		t.Helper()
		r := snapshot.Run{
			Key: snapshot.Key{Orchestrator: "bot", Session: "a"}, ID: fmt.Sprint("run", epoch), Attempt: 1,
			Status: snapshot.Running,
			Fence:  lock.Fence{Epoch: epoch, Nonce: "n"},
		}
		if found, err := s.Begin(ctx, r); err != nil || found != nil {
			t.Fatal(found, err)
		}
		if err := s.Delete(ctx, r.Key, r.ID, r.Fence); err != nil {
			t.Fatal(err)
		}
	}
	begin(1)
	ahead := fmt.Sprint(time.Now().AddDate(1, 0, 0).UnixMicro())
	if err := client.HSet(ctx, prefix+"{bot/a}:run", "barred", ahead).Err(); err != nil {
		t.Fatal(err)
	}
	begin(2)
	if got := client.HGet(ctx, prefix+"{bot/a}:run", "barred").Val(); got <= ahead {
		t.Errorf("barred up to %s, want more than %s", got, ahead)
	}
	begin(3)
}

func entryOf(session, token, barred string) redisstore.Barred {
	return redisstore.Barred{Session: session, Token: token, At: barred}
}
