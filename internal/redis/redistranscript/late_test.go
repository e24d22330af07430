package redistranscript

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/transcript"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var k = transcript.Key{Orchestrator: "bot", Session: "a"}

// open returns a store, and a func that executes a command.
func open(t *testing.T) (s *Store, do func(args ...any) any) {
	c, prefix := testenv.Redis(t)
	return New(c, &Options{Prefix: prefix}), func(args ...any) any {
		t.Helper()
		got, err := c.Do(t.Context(), args...).Result()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

func stamp(d time.Duration) string { return fmt.Sprint(time.Now().Add(d).UnixMicro()) }

func (s *Store) say(t *testing.T, id string) {
	t.Helper()
	if _, err := s.Append(t.Context(), k, id, []message.Message{message.User(id)}); err != nil {
		t.Fatal(err)
	}
}

func (s *Store) there(ctx context.Context) (n int) {
	for _, err := range s.Read(ctx, k, []transcript.Span{{From: 1, Through: 9}}) {
		if err == nil {
			n++
		}
	}
	return n
}

// A request names the time at which its call began. If that time is too long ago, or before the newest Trim, or in the
// future, the request is refused.
func TestTooLate(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	run := func(script *redisstore.Lua, want string, args ...any) {
		t.Helper()
		reply, err := s.redis.Run(t.Context(), script, s.keys(k), args...)
		if err != nil || reply.Status != want {
			t.Fatalf("%v, %v, want %s", reply, err, want)
		}
	}
	add := func(call string, began time.Duration, want string) {
		t.Helper()
		run(appendScript, want, call, stamp(began), call, 1, "[{}]", "0")
	}
	paste := func(call string, began time.Duration, want string) {
		t.Helper()
		run(copyScript, want, call, stamp(began), "0", 7, 7, "[{}]")
	}
	trim := func(call, began, want string) {
		t.Helper()
		run(trimScript, want, call, began, "", "")
	}
	add("unknown", -21*time.Minute, "BEGIN")
	add("ahead", time.Minute, "BEGIN")
	paste("unknown", -21*time.Minute, "BEGIN")
	trim("none", "", "OK")
	add("one", -19*time.Minute, "OK")
	paste("two", -19*time.Minute, "OK")
	trim("begins", "", "BEGIN")
	trim("late", stamp(-21*time.Minute), "BEGIN")
	trim("ahead", stamp(time.Minute), "BEGIN")
	trim("all", stamp(-19*time.Minute), "OK")
	add("before", -time.Second, "BEGIN")
	add("one", -19*time.Minute, "OK") // it has had its effect
	add("one", 0, "OK")
	paste("two", -19*time.Minute, "OK")
	trim("all", stamp(-19*time.Minute), "OK")
	if n := s.there(t.Context()); n != 0 {
		t.Errorf("%d messages are there", n)
	}
}

// A call is remembered for an hour, and only if its entry was young.
func TestCallsAreForgotten(t *testing.T) {
	t.Parallel()
	s, do := open(t)
	set := s.keys(k)[0]
	for _, id := range []string{"a", "b", "c"} {
		s.say(t, id)
	}
	body := func(n int) string { return fmt.Sprintf("body\x00%016d\x00[]", n) }
	for n, age := range map[int]time.Duration{4: 61 * time.Minute, 5: 59 * time.Minute, 6: 0} {
		entry := fmt.Sprintf("entry\x00%016d\x00%d\x00%s\x00call %d\x00id %d", n, n, stamp(-age), n, n)
		do("ZADD", set, 0, entry, 0, body(n), 0, fmt.Sprintf("id\x00id %d\x00%016d", n, n))
	}
	old, young := "done\x00old\x00"+stamp(-61*time.Minute)+"\x001", "done\x00young\x00"+stamp(-59*time.Minute)+"\x001"
	do("ZADD", set, 0, old, 0, young, 0, "barred\x00"+stamp(-time.Hour))
	if n, err := s.Trim(t.Context(), k, []transcript.Span{{From: 1, Through: 1}}, time.Now().Add(time.Hour)); n != 4 ||
		err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
	all := fmt.Sprintf("%q", do("ZRANGE", set, 0, -1))
	for text, want := range map[string]int{
		`done\x00`: 5, `old\x00`: 0, `young\x00`: 1, `done\x00call 4`: 0, `done\x00call 5`: 1, `barred`: 1,
		`entry\x00`: 2, `body\x00`: 2, `"id\x00`: 2,
	} {
		if n := strings.Count(all, text); n != want {
			t.Errorf("%d members have %s, want %d: %s", n, text, want, all)
		}
	}
}

// The clock of a store is that of the server. After a minute of silence the store asks again.
func TestClock(t *testing.T) {
	t.Parallel()
	var c clock
	if got := c.now(); got != "" {
		t.Errorf("before any answer it is %s", got)
	}
	c.tell("x")
	c.tell("1000000000")
	if got := c.now(); len(got) != 10 || got < "1000000000" {
		t.Errorf("it is %s", got)
	}
	c.at = c.at.Add(-fresh)
	if got := c.now(); got != "" {
		t.Errorf("after a minute it is %s", got)
	}
}
