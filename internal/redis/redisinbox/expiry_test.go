package redisinbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func ago(d time.Duration) string { return fmt.Sprint(time.Now().Add(-d).UnixMicro()) }

// A request names the time at which it began. If that time is too long ago, the request is refused.
func TestTooLate(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	k := inbox.Key{Orchestrator: "bot", Session: "a"}
	run := func(script *redisstore.Lua, want string, args ...any) {
		t.Helper()
		reply, err := s.redis.Run(t.Context(), script, s.boxKeys(k, inbox.Answer), args...)
		if err != nil || reply.Status != want {
			t.Fatalf("%v, %v, want %s", reply, err, want)
		}
	}
	post := func(call, token string, late time.Duration, want string) {
		t.Helper()
		run(postScript, want, call, token, ago(late), "q", "ada", "", "{}")
	}
	token := func(n int) string { return fmt.Sprint(time.Now().UnixMicro() + int64(n)) }
	first := token(0)
	post("call", first, 21*time.Minute, "INDEX")
	if ttl := client.PTTL(t.Context(), s.boxKeys(k, inbox.Answer)[0]).Val(); ttl < 59*time.Minute {
		t.Errorf("a key without items expires in %v", ttl)
	}
	post("call", first, 0, "INDEX") // because the first has barred the token
	post("call", token(1000), 19*time.Minute, "OK")
	run(removeScript, "BEGIN", "remove", "", "q")
	run(removeScript, "BEGIN", "remove", ago(21*time.Minute), "q")
	run(removeScript, "OK", "remove", ago(19*time.Minute), "q")
	if n := count(t.Context(), s, k); n != 0 {
		t.Errorf("%d items are left", n)
	}
}

func count(ctx context.Context, s *Store, k inbox.Key) (n int) {
	for _, err := range s.Items(ctx, k, inbox.Answer) {
		if err == nil {
			n++
		}
	}
	return n
}

// The calls that have had their effect are forgotten after half an hour.
func TestDoneIsForgotten(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	k := inbox.Key{Orchestrator: "bot", Session: "a"}
	turn := func(id string) {
		t.Helper()
		if _, err := s.Post(t.Context(), inbox.Item{Key: k, Kind: inbox.Answer, ID: id, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), k, inbox.Answer, id); err != nil {
			t.Fatal(err)
		}
	}
	turn("a")
	box := s.boxKeys(k, inbox.Answer)[0]
	add := func(text string) string {
		if _, err := client.Do(t.Context(), "ZADD", box, 0, text).Result(); err != nil {
			t.Fatal(err)
		}
		return text
	}
	old, young := add("done\x00"+ago(31*time.Minute)+"\x00old"), add("done\x00"+ago(29*time.Minute)+"\x00young")
	turn("b")
	all, err := client.ZRange(t.Context(), box, 0, -1).Result()
	members := strings.Join(all, "\n")
	if err != nil || strings.Contains(members, old) || !strings.Contains(members, young) {
		t.Errorf("%q, %v", all, err)
	}
	if len(all) != 1+2*2+1 {
		t.Errorf("%d members are left: %q", len(all), all)
	}
}

// A token is above every token that the session has barred, also if the clock of the index has stepped back.
func TestIndexClockBehind(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	s := New(client, &Options{Prefix: prefix})
	k := inbox.Key{Orchestrator: "bot", Session: "a"}
	box := s.boxKeys(k, inbox.Answer)[0]
	ahead := fmt.Sprint(time.Now().AddDate(1, 0, 0).UnixMicro())
	if err := client.Do(t.Context(), "ZADD", box, 0, "head\x000\x00"+ahead).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		first, err := s.Post(t.Context(), inbox.Item{Key: k, Kind: inbox.Answer, ID: "q", By: "ada"})
		if err != nil || !first || count(t.Context(), s, inbox.Key{Orchestrator: "bot"}) != 1 {
			t.Errorf("%t, %v", first, err)
		}
		if err := s.Remove(t.Context(), k, ""); err != nil {
			t.Fatal(err)
		}
		if n := count(t.Context(), s, inbox.Key{Orchestrator: "bot"}); n != 0 {
			t.Errorf("%d items are listed", n)
		}
	}
}
