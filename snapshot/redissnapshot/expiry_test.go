package redissnapshot

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// What an entry was seen or barred at decides, and not when the request arrives: a request that is late is refused.
func TestTooLate(t *testing.T) {
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	ctx := t.Context()
	r := snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: "a"}, ID: "run", Attempt: 1, Status: snapshot.Running, Fence: lock.Fence{Epoch: 1, Nonce: "n"},
	}
	ago := func(at string, d time.Duration) string {
		var us int64
		if _, err := fmt.Sscan(at, &us); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(us - d.Microseconds())
	}
	tokenOf := func() string {
		page, err := s.redis.List(ctx, s.indexKeys("bot"), "-", "+", 1)
		if err != nil || len(page) == 0 {
			t.Fatal(page, err)
		}
		return page[0].Token
	}

	first, seen, err := s.enter(ctx, r.Key, "first", barred{})
	if err != nil || first != "first" {
		t.Fatal(first, err)
	}
	for _, c := range []struct {
		late time.Duration
		want string
	}{{21 * time.Minute, "INDEX"}, {0, "INDEX"}} { // the second because the first has barred the entry
		reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key), append([]any{"call", first, ago(seen, c.late)}, encode(r)...)...)
		if err != nil || reply.Status != c.want {
			t.Fatalf("begin %v late: %v, %v", c.late, reply, err)
		}
	}
	if got, _, err := s.enter(ctx, r.Key, "second", barred{"a", first, ago(seen, 21*time.Minute)}); err != nil || got != first {
		t.Fatal("replaced by who is late:", got, err)
	}
	if got, _, err := s.enter(ctx, r.Key, "second", barred{"a", first, ago(seen, 19*time.Minute)}); err != nil || got != "second" {
		t.Fatal("not replaced:", got, err)
	}
	reply, err := s.redis.Run(ctx, beginScript, s.runKeys(r.Key), append([]any{"call", "second", ago(seen, 19*time.Minute)}, encode(r)...)...)
	if err != nil || reply.Status != "OK" {
		t.Fatal(reply, err)
	}
	for _, b := range []barred{{"a", "second", ago(seen, 21*time.Minute)}, {"a", "first", seen}, {"b", "second", seen}} {
		if err := s.drop(ctx, "bot", []barred{b}); err != nil || tokenOf() != "second" {
			t.Fatalf("%v dropped the entry, %v", b, err)
		}
	}
}
