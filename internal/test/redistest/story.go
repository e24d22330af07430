package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Story is a fixed sequence of calls on a fresh store. It returns what each call said.
type Story func(client *redis.Client, prefix string) []string

// Compare fails at the first verdict that differs.
func Compare(t *testing.T, when string, got, want []string) {
	t.Helper()
	if err := compare(when, got, want); err != nil {
		t.Fatal(err)
	}
}

func compare(when string, got, want []string) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s:\n got %s\nwant %s\nafter %q", when, got[i], want[i], want[:i])
		}
	}
	return nil
}

// Another returns a client of its own of the server that client has.
func Another(t *testing.T, client *redis.Client, hooks ...redis.Hook) *redis.Client {
	other := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
	t.Cleanup(func() { other.Close() })
	for _, h := range hooks {
		other.AddHook(h)
	}
	return other
}

// LoseReplies plays the story once for each answer, and loses that answer after its request took effect. The client
// repeats the request, and no verdict may differ. Without HOLDFAST_SOAK=1 it is every third answer. Several stories are
// played at a time, because each waits for the server at every call.
func LoseReplies(t *testing.T, want []string, story Story) {
	shared, prefix := testenv.Redis(t)
	step := int64(3)
	if Soak() {
		step = 1
	}
	var answers, stories atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			network := new(Lossy)
			o := &redis.Options{Addr: shared.Options().Addr, Dialer: network.Dial, MinRetryBackoff: -1}
			client := redis.NewClient(o)
			defer client.Close()
			for lost := true; lost && errs[i] == nil; lost = network.Lost() {
				n := answers.Add(step)
				stories.Add(1)
				if errs[i] = client.Ping(t.Context()).Err(); errs[i] != nil {
					return
				}
				network.LoseNext(n)
				got := story(client, fmt.Sprintf("%s:%d:", prefix, n))
				errs[i] = compare(fmt.Sprintf("answer %d lost", n), got, want)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d answers were lost in turn", stories.Load()-int64(len(errs)))
}

// CopyLate plays the story for a while. Each time a copy of one request arrives much later, and no verdict may
// differ. The story may set the Spare of its echo.
func CopyLate(t *testing.T, want []string, story func(e *Echo) Story) {
	shared, prefix := testenv.Redis(t)
	requests, trial := 400, 0
	for start := time.Now(); time.Since(start) < Search(); trial++ {
		e := &Echo{Nth: 1 + rand.IntN(requests), Late: 1 + rand.IntN(requests/2), Client: shared}
		client := redis.NewClient(&redis.Options{Addr: shared.Options().Addr})
		client.AddHook(e)
		got := story(e)(client, fmt.Sprintf("%s:%d:", prefix, trial))
		client.Close()
		Compare(t, fmt.Sprintf("copy of request %d, %d later: %.200q", e.Nth, e.Late, e.Copy), got, want)
		requests = e.N
	}
	t.Logf("%d trials", trial)
}

// ForgetScripts plays the story on a Redis that loses its scripts before every request.
func ForgetScripts(t *testing.T, want []string, story Story) {
	_, client := Server(t, redis.Options{})
	client.AddHook(Forgetful{Client: Another(t, client)})
	Compare(t, "scripts lost", story(client, "holdfast:"), want)
}

// Prefixes shows that the function, which makes a store, panics if a prefix could not begin every key.
func Prefixes(t *testing.T, newStore func(prefix string)) {
	for _, prefix := range []string{"a", "A-Z_09.:", strings.Repeat("x", 64)} {
		newStore(prefix)
	}
	for _, prefix := range []string{"{", "a}", "a b", "é", "a*", "a\n", strings.Repeat("x", 65)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("prefix %q is accepted", prefix)
				}
			}()
			newStore(prefix)
		}()
	}
}
