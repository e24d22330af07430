package redisinbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/redis/redisinbox"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.MainWith(m, boxtest.Roles(openPrefix)) }

// openPrefix opens the store of a URL and a prefix, divided by a space.
func openPrefix(where string) (inbox.Store, func(), error) {
	url, prefix, _ := strings.Cut(where, " ")
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(o)
	return redisinbox.New(client, &redisinbox.Options{Prefix: prefix}), func() { client.Close() }, nil
}

func TestStore(t *testing.T) {
	t.Parallel()
	inboxtest.Run(t, newStore)
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	inboxtest.Run(t, func(*testing.T) inbox.Store {
		n++
		return redisinbox.New(client, &redisinbox.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
}

func newStore(t *testing.T) inbox.Store {
	client, prefix := testenv.Redis(t)
	return redisinbox.New(client, &redisinbox.Options{Prefix: prefix})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	faulttest.InboxModel(t, newStore)
	faulttest.InboxHistories(t, newStore, faulttest.Histories())
}

// On a cluster the index may be on another node than the session.
func TestModelCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	open := func(*testing.T) inbox.Store { return redisinbox.New(client, nil) }
	faulttest.InboxHistories(t, open, faulttest.Histories())
}

// Several processes answer the same questions at once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	boxtest.TestProcesses(t, redisinbox.New(client, &redisinbox.Options{Prefix: prefix}), place(client, prefix))
}

// A process is killed while it posts.
func TestKilled(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	boxtest.TestKilled(t, redisinbox.New(client, &redisinbox.Options{Prefix: prefix}), place(client, prefix))
}

func place(client *redis.Client, prefix string) string {
	return fmt.Sprintf("redis://%s/%d %s", client.Options().Addr, client.Options().DB, prefix)
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	redistest.Prefixes(t, func(prefix string) { redisinbox.New(nil, &redisinbox.Options{Prefix: prefix}) })
	if got := redisinbox.New(nil, nil).Schema(); got != "" {
		t.Errorf("schema %q", got)
	}
}

// Names that look like hash tags, separators or escapes stay apart, and each session stays in one slot.
func TestNames(t *testing.T) {
	t.Parallel()
	s := redisinbox.New(redistest.Cluster(t), nil)
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
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redisinbox.New(client, nil)
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
		{"removal of no kind", removed(""), 2},
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
func TestManyItems(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redisinbox.New(client, nil)
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
func TestNothingStays(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redisinbox.New(client, nil)
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

func key(session string) inbox.Key { return inbox.Key{Orchestrator: "bot", Session: session} }

func item(session, id, by string) inbox.Item {
	return inbox.Item{
		Key: key(session), Kind: inbox.Answer, ID: id, By: by, Shown: "sum", Data: json.RawMessage(`{"n":1}`),
	}
}

func post(t *testing.T, s inbox.Store, all ...inbox.Item) {
	t.Helper()
	for _, it := range all {
		if first, err := s.Post(t.Context(), it); err != nil || !first {
			t.Fatalf("Post of %q: %t, %v", it.ID, first, err)
		}
	}
}

// ids returns the ids of the answers of a session, or of all if session is "".
func ids(t *testing.T, s inbox.Store, session string) (all []string) {
	t.Helper()
	all, err := list(t.Context(), s, session)
	check(t, err)
	return all
}

// firstOf reads the first answer of a session only.
func firstOf(t *testing.T, s inbox.Store, session string) {
	t.Helper()
	for _, err := range s.Items(t.Context(), key(session), inbox.Answer) {
		check(t, err)
		break
	}
}

func list(ctx context.Context, s inbox.Store, session string) (all []string, err error) {
	for it, err := range s.Items(ctx, key(session), inbox.Answer) {
		if err != nil {
			return all, err
		}
		all = append(all, it.ID)
	}
	return all, nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got %v, want %v", err, target)
	}
}
