package inbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
)

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestRedisNames(t *testing.T) {
	t.Parallel()
	s := onRedis.New(redistest.Cluster(t), "")
	names := []string{
		"a", "a/b", "b", "/", "{", "}", "{}", "{a}", "}{", "%", "%2F", "%252F", "a:inbox:answer", "\n", "\x01", "*", "😀",
		"\u202e", strings.Repeat("{", 512),
	}
	for _, orchestrator := range names {
		for _, session := range names {
			it := item(session, orchestrator, session)
			it.Orchestrator = orchestrator
			post(t, s, it)
		}
	}
	for _, orchestrator := range names {
		n := 0
		for it, err := range s.Items(t.Context(), inbox.Key{Orchestrator: orchestrator}, inbox.Answer) {
			check(t, err)
			if it.ID != orchestrator || it.By != it.Session {
				t.Errorf("session %q of %q holds %q by %q", it.Session, orchestrator, it.ID, it.By)
			}
			n++
			check(t, s.Remove(t.Context(), it.Key, inbox.Answer, it.ID))
		}
		if n != len(names) {
			t.Errorf("%d sessions of %q, want %d", n, orchestrator, len(names))
		}
	}
}

// A call costs so many scripts. One command is sent for each.
func TestRedisRoundTrips(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	posted := func(it inbox.Item, want bool) func() {
		return func() {
			if first, err := s.Post(t.Context(), it); err != nil || first != want {
				t.Errorf("Post: %t, %v", first, err)
			}
		}
	}
	removed := func(kind inbox.Kind, ids ...string) func() {
		return func() { check(t, s.Remove(t.Context(), key("s"), kind, ids...)) }
	}
	all := func() { // Redis has all scripts then
		posted(item("s", "q", "ada"), true)()
		post(t, s, item("s", "other", "ada"))
		ids(t, s, "s")
		ids(t, s, "")
		removed(inbox.Answer)()
	}
	all()
	post(t, s, item("s", "kept", "ada"))
	for _, c := range []struct {
		what string
		do   func()
		want int
	}{
		{"an item", posted(item("s", "a", "ada"), true), 2},
		{"an item of a new session", posted(item("t", "a", "ada"), true), 2},
		{"an item once more", posted(item("s", "a", "ada"), true), 2},
		{"an item of another", posted(item("s", "a", "bob"), false), 2},
		{"list of a session", func() { ids(t, s, "s") }, 1},
		{"list of all", func() { ids(t, s, "") }, 3}, // the index, and two sessions in one round trip
		{"removal of one", removed(inbox.Answer, "a"), 2},
		{"an item after a removal", posted(item("s", "b", "ada"), true), 4},
		{"and one after it", posted(item("s", "c", "ada"), true), 2},
		{"removal of the last", removed(inbox.Answer), 3},
		{"removal of nothing", removed(inbox.Answer), 1},
		{"removal of no kind", removed(""), len(inbox.Kinds())},
		{"an item after the last", posted(item("s", "a", "ada"), true), 2},
	} {
		check(t, client.ConfigResetStat(t.Context()).Err())
		c.do()
		stats := redistest.Stats(t, client)
		if got := stats["cmdstat_evalsha"] + stats["cmdstat_eval"]; got != c.want {
			t.Errorf("%s: %d scripts, want %d", c.what, got, c.want)
		}
	}
}

// A large inbox comes in pages, in the order of the contract, and costs each item once.
func TestRedisManyItems(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	const sessions, n = 100, 300
	for i := range sessions {
		post(t, s, item(fmt.Sprintf("s%03d", i), "q", "ada"))
	}
	for i := range n {
		post(t, s, item("s050", fmt.Sprintf("q%03d", i), "ada"))
	}
	check(t, client.ConfigResetStat(t.Context()).Err())
	if got := ids(t, s, ""); len(got) != sessions+n {
		t.Errorf("%d items, want %d", len(got), sessions+n)
	}
	if got := redistest.Stats(t, client)["cmdstat_zrange"]; got > sessions*4+n {
		t.Errorf("%d ranges were read", got)
	}
	check(t, client.ConfigResetStat(t.Context()).Err())
	firstOf(t, s, "s050")
	if sent := redistest.Stats(t, client)["total_net_output_bytes"]; sent > 20_000 {
		t.Errorf("the first of %d items costs %d bytes", n, sent)
	}

	const large = 200 << 10
	for i := range 20 {
		it := item("large", fmt.Sprint("q", i), "ada")
		it.Data = json.RawMessage(`"` + strings.Repeat("x", large) + `"`)
		post(t, s, it)
	}
	check(t, client.ConfigResetStat(t.Context()).Err())
	firstOf(t, s, "large")
	if sent := redistest.Stats(t, client)["total_net_output_bytes"]; sent > 2*large {
		t.Errorf("the first of some large items costs %d bytes", sent)
	}
	if got := ids(t, s, "large"); len(got) != 20 {
		t.Errorf("listed %q", got)
	}
}

// What is left of a session without items is gone in an hour, and the index has no entry of it.
func TestRedisNothingStays(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := onRedis.New(client, "")
	for i := range 3 {
		post(t, s, item("s", fmt.Sprint("q", i), "ada"))
	}
	check(t, s.Remove(t.Context(), key("s"), inbox.Answer, "q0"))
	if ttl := client.PTTL(t.Context(), "holdfast:{bot/s}:inbox:answer").Val(); ttl != -1 {
		t.Errorf("an inbox with items expires in %v", ttl)
	}
	check(t, s.Remove(t.Context(), key("s"), ""))
	keys := client.Keys(t.Context(), "*").Val()
	if !slices.Equal(keys, []string{"holdfast:{bot/s}:inbox:answer"}) {
		t.Errorf("left are %q", keys)
	}
	if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl.Minutes() < 59 || ttl.Minutes() > 61 {
		t.Errorf("what is left expires in %v", ttl)
	}
	post(t, s, item("s", "q", "ada"))
	if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl != -1 {
		t.Errorf("an inbox with items expires in %v", ttl)
	}
}

// firstOf reads the first answer of a session only.
func firstOf(t *testing.T, s inbox.Store, session string) {
	t.Helper()
	for _, err := range s.Items(t.Context(), key(session), inbox.Answer) {
		check(t, err)
		break
	}
}
