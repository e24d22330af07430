package redislocker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLocker(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker {
		client, prefix := testenv.Redis(t)
		return redislocker.New(client, &redislocker.Options{Prefix: prefix})
	})
}

// A client may give up a command when its ctx ends. No lock without an owner may remain on the server.
func TestLockerContextTimeouts(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker {
		shared, prefix := testenv.Redis(t)
		o := *shared.Options()
		o.ContextTimeoutEnabled = true
		client := redis.NewClient(&o)
		t.Cleanup(func() { client.Close() })
		return redislocker.New(client, &redislocker.Options{Prefix: prefix})
	})
}

func TestLockerCluster(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.StartRedisCluster(t, nil).Addrs})
	t.Cleanup(func() { client.Close() })
	n := 0
	locktest.Run(t, func(*testing.T) lock.Locker {
		n++
		return redislocker.New(client, &redislocker.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func private(t *testing.T, ttl time.Duration) (*testenv.Server, *redislocker.Locker, *redis.Client) {
	t.Helper()
	s := testenv.StartRedis(t, nil)
	o, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.PoolSize = 50
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return s, redislocker.New(client, &redislocker.Options{TTL: ttl, Logger: quiet}), client
}

// If the server fails in any way, the owner's context ends before another caller can get the key.
func TestLost(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for name, harm := range map[string]func(*testenv.Server, *redis.Client) error{
		"stopped": func(s *testenv.Server, _ *redis.Client) error { s.Stop(); return nil },
		"killed":  func(s *testenv.Server, _ *redis.Client) error { s.Kill(); return nil },
		"flushed": func(_ *testenv.Server, c *redis.Client) error { return c.FlushAll(context.Background()).Err() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, l, client := private(t, ttl)
			held, unlock, err := l.Lock(t.Context(), "k")
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			start := time.Now()
			if err := harm(server, client); err != nil {
				t.Fatal(err)
			}
			<-held.Done()
			if since := time.Since(start); !errors.Is(context.Cause(held), lock.ErrLost) || since > ttl {
				t.Errorf("held ended after %v with %v", since, context.Cause(held))
			}
			if name == "stopped" {
				server.Continue()
			}
		})
	}
}

// If the server answers too late to renew, the lock is lost, and the owner's context ends in time.
func TestSlow(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	server := testenv.StartRedis(t, nil)
	o, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	var stalls atomic.Bool
	l := redislocker.New(dialing(t, func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Addr)
		return slow{conn, &stalls}, err
	}), &redislocker.Options{TTL: ttl, Logger: quiet})
	held, unlock, err := l.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	start := time.Now()
	stalls.Store(true)
	<-held.Done()
	stalls.Store(false)
	if since := time.Since(start); !errors.Is(context.Cause(held), lock.ErrLost) || since > ttl {
		t.Errorf("held ended after %v with %v", since, context.Cause(held))
	}
}

// dialing returns a client that connects with dial and gives up a command when its ctx ends.
func dialing(t *testing.T, dial func(context.Context) (net.Conn, error)) *redis.Client {
	client := redis.NewClient(&redis.Options{
		ContextTimeoutEnabled: true,
		Dialer:                func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
	t.Cleanup(func() { client.Close() })
	return client
}

// slow answers nothing while it stalls, so the deadline of its reader passes.
type slow struct {
	net.Conn
	stalls *atomic.Bool
}

func (s slow) Read(b []byte) (int, error) {
	if s.stalls.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(b)
}

// The value on the server shows its owner, and no token of ours: with redislock, a token that begins with another
// lock's token takes that lock.
func TestValue(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	l := redislocker.New(client, &redislocker.Options{Prefix: prefix, Owner: "pod-1"})
	var tokens []string
	for range 2 {
		_, unlock, err := l.Lock(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		value, err := client.Get(t.Context(), prefix+"k").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(value) < len("pod-1")+16 || value[len(value)-5:] != "pod-1" {
			t.Errorf("the value is %q", value)
		}
		tokens = append(tokens, value)
		unlock()
	}
	if tokens[0] == tokens[1] {
		t.Error("two locks have one token")
	}
}

// A thousand locks outlive their TTL without a goroutine for each.
func TestThousand(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	_, l, _ := private(t, ttl)
	before := runtime.NumGoroutine()
	var helds []context.Context
	for i := range 1000 {
		held, unlock, err := l.Lock(t.Context(), fmt.Sprintf("k%d", i))
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		helds = append(helds, held)
	}
	most := 0
	for start := time.Now(); time.Since(start) < ttl+ttl/3; {
		most = max(most, runtime.NumGoroutine()-before)
		_, unlock, err := l.TryLock(t.Context(), "k500")
		if err == nil {
			unlock()
		}
		if !errors.Is(err, lock.ErrHeld) && helds[500].Err() == nil {
			t.Fatalf("TryLock of a key whose holder was told nothing returns %v", err)
		}
	}
	for i, held := range helds {
		if held.Err() != nil {
			t.Fatalf("lock %d ended with %v", i, context.Cause(held))
		}
	}
	if most > 200 { // other tests run beside this one
		t.Errorf("%d goroutines keep 1,000 locks", most)
	}
}

func ExampleNew() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer client.Close()
	room := redislocker.New(client, &redislocker.Options{Owner: "pod-7"})

	held, unlock, err := room.Lock(context.Background(), lock.Key("refund-bot", "A-1042"))
	if err != nil {
		return
	}
	defer unlock()
	// Work that uses held ends with the lock.
	<-held.Done()
}
