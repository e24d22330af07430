package lock_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The replica never had the lock: after the failover another caller gets it at once. The first owner learns of the
// loss at its next renewal. Neither that renewal nor its unlock disturbs the new owner.
func TestRedisFailoverBeforeReplication(t *testing.T) {
	t.Parallel()
	// The loss shows at a renewal, much earlier than ttl.
	const ttl = 6 * time.Second
	f := newFailover(t)
	f.cut()
	held, unlock := mustLock(t, f.locker(ttl))
	if f.copied() {
		t.Fatal("the lock has passed through a link that is cut")
	}
	killed := f.promote()
	other := f.locker(time.Minute)
	otherHeld, unlockOther := mustLock(t, other)
	defer unlockOther()
	wantLost(t, held, killed, ttl)
	unlock()
	wantHeld(t, other)
	if otherHeld.Err() != nil {
		t.Errorf("the new holder is told %v", context.Cause(otherHeld))
	}
}

// The replica has the lock, but none of its renewals. The test lets that copy expire before the failover.
func TestRedisFailoverWithoutRenewals(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	f := newFailover(t)
	held, unlock := mustLock(t, f.locker(ttl))
	f.until("the replica has the lock", f.copied)
	f.cut()
	f.until("the replica's copy has ended", func() bool { return !f.copied() })
	killed := f.promote()
	wantLost(t, held, killed, ttl)
	other := f.locker(time.Minute)
	_, unlockOther := mustLock(t, other)
	defer unlockOther()
	unlock()
	wantHeld(t, other)
}

// The replica has the lock when it takes over. The owner renews the lock there, and no other caller gets it.
func TestRedisFailoverKeeps(t *testing.T) {
	t.Parallel()
	f := newFailover(t)
	held, unlock := mustLock(t, f.locker(6*time.Second))
	f.until("the replica has the lock", f.copied)
	f.cut()
	f.promote()
	left := f.left()
	other := f.locker(time.Minute)
	f.until("the lock is renewed on the replica", func() bool {
		wantHeld(t, other)
		return f.left() > left || held.Err() != nil
	})
	if held.Err() != nil {
		t.Errorf("held ended with %v", context.Cause(held))
	}
	unlock()
	_, unlockOther := mustLock(t, other)
	unlockOther()
}

// A failover is a Redis, its replica, and clients whose address changes from the Redis to the replica.
type failover struct {
	t       *testing.T
	primary *testenv.Server
	replica *redis.Client
	current atomic.Pointer[string] // the address that clients get
}

// newFailover starts the servers. It returns when the replica is linked to its primary.
func newFailover(t *testing.T) *failover {
	t.Helper()
	f := &failover{
		t:       t,
		primary: testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{"repl-diskless-sync-delay": "0"}}),
	}
	o, err := redis.ParseURL(testenv.StartRedis(t, nil).URL)
	check(t, err)
	f.replica = newClient(t, o)
	u, err := url.Parse(f.primary.URL)
	check(t, err)
	f.current.Store(&u.Host)
	f.follow(u.Hostname(), u.Port())
	f.until("the replica is linked", f.linked)
	return f
}

// follow makes the replica follow the server at host and port.
func (f *failover) follow(host, port string) {
	f.t.Helper()
	check(f.t, f.replica.Do(f.t.Context(), "REPLICAOF", host, port).Err())
}

func (f *failover) linked() bool {
	f.t.Helper()
	info, err := f.replica.Info(f.t.Context(), "replication").Result()
	check(f.t, err)
	return strings.Contains(info, "master_link_status:up\r\n")
}

// cut ends the link for good: no server listens where the replica looks for its primary from now on.
func (f *failover) cut() {
	f.t.Helper()
	f.follow("127.0.0.1", "1")
	if f.linked() {
		f.t.Fatal("the replica is still linked")
	}
}

// promote kills the primary and sends all clients to the replica. The primary granted no renewal after killed.
func (f *failover) promote() (killed time.Time) {
	f.t.Helper()
	f.primary.Kill()
	killed = time.Now()
	f.follow("NO", "ONE")
	f.current.Store(&f.replica.Options().Addr)
	return killed
}

// copied reports whether the replica has the lock.
func (f *failover) copied() bool {
	f.t.Helper()
	return f.left() > 0
}

// left returns how long the replica's copy of the lock still lasts.
func (f *failover) left() time.Duration {
	f.t.Helper()
	left, err := f.replica.PTTL(f.t.Context(), failoverPrefix+key).Result()
	check(f.t, err)
	return left
}

func (f *failover) until(what string, ok func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			f.t.Fatalf("not within a minute: %s", what)
		}
	}
}

const failoverPrefix = "failover:"

func (f *failover) locker(ttl time.Duration) *redislocker.Locker {
	client := dialing(f.t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", *f.current.Load())
	})
	return redislocker.New(client, &redislocker.Options{Prefix: failoverPrefix, TTL: ttl, Logger: quiet})
}
