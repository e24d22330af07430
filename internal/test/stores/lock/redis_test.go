package lock_test

import (
	"context"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// If the server answers too late to renew, the lock is lost, and the owner's context ends in time.
func TestRedisSlow(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	server := testenv.StartRedis(t, nil)
	o, err := redis.ParseURL(server.URL)
	check(t, err)
	var stalls atomic.Bool
	l := redislocker.New(dialing(t, func(ctx context.Context) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", o.Addr)
		return slow{conn, &stalls}, err
	}), &redislocker.Options{TTL: ttl, Logger: quiet})
	held, unlock := mustLock(t, l)
	defer unlock()
	start := time.Now()
	stalls.Store(true)
	wantLost(t, held, start, ttl)
	stalls.Store(false)
}

// dialing returns a client that connects with dial and gives up a command when its ctx ends.
func dialing(t *testing.T, dial func(context.Context) (net.Conn, error)) *redis.Client {
	return newClient(t, &redis.Options{
		ContextTimeoutEnabled: true,
		Dialer:                func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	})
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
func TestRedisValue(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	l := redislocker.New(client, &redislocker.Options{Prefix: prefix, Owner: "pod-1"})
	var tokens []string
	for range 2 {
		_, unlock := mustLock(t, l)
		value, err := client.Get(t.Context(), prefix+key).Result()
		check(t, err)
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
