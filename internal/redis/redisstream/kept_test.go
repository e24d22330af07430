package redisstream_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// Random histories follow the model.
func TestModel(t *testing.T) {
	t.Parallel()
	faulttest.StreamModel(t, 8, func(t *testing.T) stream.Store {
		client, prefix := testenv.Redis(t)
		return redisstream.New(client, &redisstream.Options{Prefix: prefix, Keep: 8})
	})
}

// A session expires when its TTL has passed since its last Append. Its readers end.
func TestTTL(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redisstream.New(client, &redisstream.Options{Prefix: prefix})
	add(t, s, key("a"), 7, stream.Active, 3)
	name := prefix + "{bot/a}:shown"
	if left := client.PTTL(t.Context(), name).Val(); left > stream.DefaultTTL || left < stream.DefaultTTL-time.Minute {
		t.Errorf("it expires in %v", left)
	}
	r := tailtest.Read(t, s, key("a"), 0)
	for range 3 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	check(t, client.PExpire(t.Context(), name, time.Millisecond).Err())
	if err := r.End(); !errors.Is(err, stream.ErrGone) {
		t.Errorf("a reader that waits: %v", err)
	}
	if last := add(t, s, key("a"), 1, stream.Ended, 2); last != 2 {
		t.Errorf("the last number is %d", last)
	}
	short := redisstream.New(client, &redisstream.Options{Prefix: prefix, TTL: time.Minute})
	add(t, short, key("a"), 1, stream.Ended, 2)
	if left := client.PTTL(t.Context(), name).Val(); left > time.Minute {
		t.Errorf("it expires in %v", left)
	}
}

// The stream of a session has one head, and no more chunks than twice as many as are kept.
func TestTrim(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redisstream.New(client, &redisstream.Options{Prefix: prefix, Keep: 10})
	for range 100 {
		add(t, s, key("a"), 1, stream.Active, 3)
		add(t, s, key("a"), 1, stream.Active, 0)
		if n := client.XLen(t.Context(), prefix+"{bot/a}:shown").Val(); n > 8 {
			t.Fatalf("%d entries", n)
		}
	}
	add(t, s, key("a"), 1, stream.Ended, 50)
	if n, err := readError(t.Context(), s, key("a"), 340); n != 10 || err != nil {
		t.Errorf("Read: %d chunks, %v", n, err)
	}
	if _, err := readError(t.Context(), s, key("a"), 339); !errors.Is(err, stream.ErrGone) {
		t.Errorf("Read of what is trimmed: %v", err)
	}
}

// What no store has written is damaged, and for a reader gone. After Delete the session begins anew.
func TestDamage(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := redisstream.New(client, &redisstream.Options{Prefix: prefix})
	entry := func(k, id string, values ...any) {
		check(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: k, ID: id, Values: values}).Err())
	}
	for name, c := range map[string]struct {
		spoil func(k string)
		head  bool // is damaged
	}{
		"another type":      {func(k string) { check(t, client.Set(t.Context(), k, "x", 0).Err()) }, true},
		"newest is no head": {func(k string) { entry(k, "9-0", "a", "b") }, true},
		"epoch is no number": {func(k string) {
			entry(k, "9-1", "epoch", "x", "status", "ended", "run", "r", "start", "1", "first", "1", "calls", "")
		}, true},
		"an entry is lost": {func(k string) { check(t, client.XDel(t.Context(), k, "4-0").Err()) }, false},
		"all are lost":     {func(k string) { check(t, client.XDel(t.Context(), k, "2-0", "4-0", "6-0").Err()) }, false},
		"no array": {func(k string) {
			check(t, client.Del(t.Context(), k).Err())
			entry(k, "4-0", "from", "3", "run", "r", "data", "7")
			entry(k, "4-1", "epoch", "1", "status", "ended", "run", "r", "start", "1", "first", "1", "calls", "")
		}, false},
		"no chunks": {func(k string) {
			check(t, client.Del(t.Context(), k).Err())
			entry(k, "4-0", "from", "3")
			entry(k, "4-1", "epoch", "1", "status", "ended", "run", "r", "start", "1", "first", "1", "calls", "")
		}, false},
	} {
		k := key(name)
		for range 3 {
			add(t, s, k, 1, stream.Ended, 2)
		}
		c.spoil(prefix + "{bot/" + name + "}:shown")
		if _, err := readError(t.Context(), s, k, 2); !errors.Is(err, stream.ErrGone) ||
			!errors.Is(err, stream.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if c.head {
			_, _, _, last := s.Last(t.Context(), k)
			_, appended := s.Append(t.Context(), k, "r", 1, stream.Ended, docs(1))
			if !errors.Is(last, stream.ErrDamaged) || !errors.Is(appended, stream.ErrDamaged) ||
				errors.Is(last, stream.ErrGone) {
				t.Errorf("%s: Last: %v, Append: %v", name, last, appended)
			}
		}
		check(t, s.Delete(t.Context(), k))
		if last := add(t, s, k, 1, stream.Ended, 1); last != 1 {
			t.Errorf("%s: last is %d after Delete", name, last)
		}
	}
}

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, o := range redistest.Unreachable {
		client := redis.NewClient(&o)
		defer client.Close()
		s := redisstream.New(client, nil)
		_, appended := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(1))
		_, _, _, last := s.Last(t.Context(), key("a"))
		_, read := readError(t.Context(), s, key("a"), 0)
		for what, err := range map[string]error{
			"Append": appended, "Last": last, "Read": read, "Delete": s.Delete(t.Context(), key("a")),
		} {
			if !errors.Is(err, stream.ErrRefused) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// A server that evicts keys is refused.
func TestEviction(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	check(t, client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	_, err := redisstream.New(client, nil).Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(1))
	if !errors.Is(err, redisstream.ErrEviction) || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Error(err)
	}
}

// A server whose memory is full takes no chunks. It takes a Delete.
func TestFull(t *testing.T) {
	t.Parallel()
	_, client := redistest.Server(t, redis.Options{})
	s := redisstream.New(client, nil)
	add(t, s, key("a"), 1, stream.Active, 3)
	redistest.Fill(t, client)
	_, err := s.Append(t.Context(), key("a"), "r-1", 1, stream.Ended, docs(1))
	if !errors.Is(err, stream.ErrRefused) {
		t.Errorf("Append: %v", err)
	}
	if last, _, status, err := s.Last(t.Context(), key("a")); last != 3 || status != stream.Active || err != nil {
		t.Errorf("Last: %d, %s, %v", last, status, err)
	}
	check(t, s.Delete(t.Context(), key("a")))
}

// documented returns the rules of the user in docs/operations.md, without the user's name.
func documented(t *testing.T) []string {
	t.Helper()
	doc := testenv.Doc(t, "operations.md")
	_, rules, ok := strings.Cut(doc, "ACL SETUSER shows ")
	if !ok {
		t.Fatal("no ACL in docs/operations.md")
	}
	rules, _, _ = strings.Cut(rules, "```")
	return strings.Fields(strings.ReplaceAll(rules, "\\\n", " "))
}

// as makes a user with these rules, and returns a client that is this user.
func as(t *testing.T, admin *redis.Client, rules []string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", "shows", "reset"}
	for _, r := range rules {
		args = append(args, r)
	}
	check(t, admin.Do(t.Context(), args...).Err())
	o := *admin.Options()
	o.Username, o.Password = "shows", "secret"
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}

// A user with the documented rules passes the suite, and has a subscription.
func TestACLSuffices(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	client := as(t, admin, documented(t))
	n := 0
	streamtest.Run(t, func(*testing.T) stream.Store {
		n++
		return redisstream.New(client, &redisstream.Options{Prefix: fmt.Sprintf("holdfast:%d:", n)})
	})
	s := redisstream.New(client, nil)
	add(t, s, key("a"), 1, stream.Active, 1)
	r := tailtest.Read(t, s, key("a"), 0)
	subscribed(t, admin, 1)
	add(t, s, key("a"), 1, stream.Ended, 1)
	if err := r.End(); err != nil {
		t.Error(err)
	}
}

// Each command of the documented rules is needed, except INFO, and those without which readers ask.
func TestACLNeedsAll(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	rules := documented(t)
	for i, rule := range rules {
		if rule[0] != '+' || strings.HasPrefix(rule, "+cluster") ||
			slices.Contains([]string{"+info", "+command", "+asking", "+ping", "+subscribe", "+unsubscribe"}, rule) {
			continue
		}
		check(t, admin.FlushAll(t.Context()).Err())
		check(t, admin.ScriptFlush(t.Context()).Err())
		s := redisstream.New(as(t, admin, slices.Delete(slices.Clone(rules), i, i+1)), &redisstream.Options{Keep: 2})
		_, first := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(3))
		_, second := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, docs(3))
		_, read := readError(t.Context(), s, key("a"), stream.Newest)
		err := errors.Join(first, second, read, s.Delete(t.Context(), key("a")))
		if err == nil {
			t.Errorf("%s is not needed", rule)
		}
		if errors.Is(err, stream.ErrDamaged) {
			t.Errorf("without %s: %v", rule, err)
		}
	}
}

// Every Keep is taken: a negative one is the default, and a large one is the most.
func TestKeepExtremes(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	for i, keep := range []int{math.MinInt, -1, stream.MaxKeep, math.MaxInt} {
		s := redisstream.New(client, &redisstream.Options{Prefix: prefix, Keep: keep})
		for want := range int64(3) {
			if last := add(t, s, key(fmt.Sprint(i)), 1, stream.Ended, 1); last != want+1 {
				t.Errorf("Keep %d: the last number is %d, want %d", keep, last, want+1)
			}
		}
		if n, err := readError(t.Context(), s, key(fmt.Sprint(i)), 0); n != 3 || err != nil {
			t.Errorf("Keep %d: Read: %d chunks, %v", keep, n, err)
		}
	}
}
