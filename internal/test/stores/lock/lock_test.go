// Package lock_test runs the cases of a locker over all databases. What one database alone has is in a test with its
// name.
package lock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/redis/redislocker"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// TestLocker runs the suite. A locker on PostgreSQL polls or listens. A client of Redis may give up a command when its
// ctx ends: no lock without an owner may remain on the server then.
func TestLocker(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) lock.Locker{
		"memory":   func(*testing.T) lock.Locker { return new(lock.Memory) },
		"postgres": func(t *testing.T) lock.Locker { return onPostgres(t) },
		"postgres/listening": func(t *testing.T) lock.Locker {
			url := testenv.PostgresSchema(t, schema())
			return pglocker.New(pgtest.PoolOn(t, url), &pglocker.Options{
				Listen: func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) },
			})
		},
		"redis": func(t *testing.T) lock.Locker {
			client, prefix := testenv.Redis(t)
			return redislocker.New(client, &redislocker.Options{Prefix: prefix})
		},
		"redis/giving up": func(t *testing.T) lock.Locker {
			shared, prefix := testenv.Redis(t)
			o := *shared.Options()
			o.ContextTimeoutEnabled = true
			return redislocker.New(newClient(t, &o), &redislocker.Options{Prefix: prefix})
		},
		"redis/documented user": func(t *testing.T) lock.Locker {
			admin, prefix := testenv.Redis(t)
			user := redistest.As(t, admin, redistest.RulesOf(t, "db"))
			return redislocker.New(user, &redislocker.Options{Prefix: "holdfast:" + prefix})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, open)
		})
	}
}

func TestOneConnection(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker { return onPostgres(t, pgtest.OneConnection) })
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, func(t *testing.T) lock.Locker { return onPostgres(t, configure) })
		})
	}
}

// A role or a database may ask for transactions that see no concurrent change by default. The locker works there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, func(t *testing.T) lock.Locker { return onPostgres(t, pgtest.Isolation(level)) })
		})
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	n := 0
	locktest.Run(t, func(*testing.T) lock.Locker {
		n++
		return redislocker.New(client, &redislocker.Options{Prefix: fmt.Sprintf("c%d:", n)})
	})
}

func onPostgres(tb testing.TB, configure ...func(*pgxpool.Config)) *pglocker.Locker {
	tb.Helper()
	return pglocker.New(pgtest.PoolWith(tb, schema(), configure...), nil)
}

func schema() string { return pglocker.New(nil, nil).Schema() }

func newClient(t *testing.T, o *redis.Options) *redis.Client {
	client := redis.NewClient(o)
	t.Cleanup(func() { client.Close() })
	return client
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// A private is a server that only this test uses, and the lockers of two processes on it.
type private struct {
	server   *testenv.Server
	l, other lock.Locker
	flush    func(t *testing.T)
}

// privates start servers, by database.
var privates = map[string]func(t *testing.T, ttl time.Duration) private{
	"postgres": func(t *testing.T, ttl time.Duration) private {
		server := testenv.StartPostgres(t, &testenv.Options{Count: true})
		p := pgtest.PoolOn(t, server.URL)
		return private{
			server, pgtest.Create(t, p, pglocker.New(p, &pglocker.Options{TTL: ttl})),
			pglocker.New(pgtest.PoolOn(t, server.URL), nil),
			func(t *testing.T) { pgtest.Exec(t, p, "DELETE FROM holdfast_locks") },
		}
	},
	"redis": func(t *testing.T, ttl time.Duration) private {
		server := testenv.StartRedis(t, nil)
		o, err := redis.ParseURL(server.URL)
		check(t, err)
		o.PoolSize = 50
		client, other := newClient(t, o), newClient(t, o)
		return private{
			server, redislocker.New(client, &redislocker.Options{TTL: ttl, Logger: quiet}),
			redislocker.New(other, &redislocker.Options{Logger: quiet}),
			func(t *testing.T) { check(t, client.FlushAll(t.Context()).Err()) },
		}
	},
}

// If the server fails in any way, the owner's context ends before another caller can get the key. Another caller gets
// it when the server is back, and the former owner's unlock does not disturb that caller.
func TestLost(t *testing.T) {
	t.Parallel()
	const ttl = 2 * time.Second
	for database, open := range privates {
		for name, harm := range map[string]func(t *testing.T, p private){
			"stopped": func(_ *testing.T, p private) { p.server.Stop() },
			"killed":  func(_ *testing.T, p private) { p.server.Kill() },
			"flushed": func(t *testing.T, p private) { p.flush(t) },
		} {
			t.Run(database+"/"+name, func(t *testing.T) {
				t.Parallel()
				p := open(t, ttl)
				held, unlock := mustLock(t, p.l)
				start := time.Now()
				harm(t, p)
				wantLost(t, held, start, ttl)
				switch name {
				case "stopped":
					p.server.Continue()
				case "killed":
					unlock()
					return
				}
				_, unlockOther := mustLock(t, p.other)
				unlock()
				wantHeld(t, p.other)
				unlockOther()
			})
		}
	}
}

// busyTTL is short for a test, and long enough for a renewal on a busy machine.
const busyTTL = 10 * time.Second

// An owner that renews keeps its lock for longer than its TTL. If the lock is gone, the next renewal notices.
func TestRenews(t *testing.T) {
	t.Parallel()
	for database, open := range privates {
		t.Run(database, func(t *testing.T) {
			t.Parallel()
			p := open(t, busyTTL)
			held, unlock := mustLock(t, p.l)
			defer unlock()
			for start := time.Now(); time.Since(start) < busyTTL*5/4; {
				<-time.After(10 * time.Millisecond)
				wantHeld(t, p.l)
			}
			if held.Err() != nil {
				t.Fatalf("held ended with %v", context.Cause(held))
			}
			p.flush(t)
			wantLost(t, held, time.Now(), busyTTL)
		})
	}
}

// A thousand locks outlive their TTL without a goroutine for each. On PostgreSQL one statement renews all.
func TestThousand(t *testing.T) { // not parallel: it counts goroutines
	for database, c := range map[string]struct {
		ttl, lasts             time.Duration
		goroutines, statements int
	}{
		"postgres": {busyTTL, 0, 20, 10}, // the pool has some goroutines
		"redis":    {busyTTL, busyTTL * 5 / 4, 200, 0},
	} {
		t.Run(database, func(t *testing.T) {
			p := privates[database](t, c.ttl)
			before := runtime.NumGoroutine()
			var helds []context.Context
			for i := range 1000 {
				held, unlock, err := p.l.Lock(t.Context(), fmt.Sprintf("k%d", i))
				check(t, err)
				defer unlock()
				helds = append(helds, held)
			}
			most, start := runtime.NumGoroutine()-before, time.Now()
			if c.statements > 0 {
				wantRenewals(t, p.server, helds[0], c.statements)
			}
			for time.Since(start) < c.lasts {
				most = max(most, runtime.NumGoroutine()-before)
				_, unlock, err := p.l.TryLock(t.Context(), "k500")
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
			if most > c.goroutines {
				t.Errorf("%d goroutines keep 1,000 locks", most)
			}
		})
	}
}

// wantRenewals waits for three renewals, and fails if they cost more statements than most.
func wantRenewals(t *testing.T, server *testenv.Server, held context.Context, most int) {
	t.Helper()
	before, start := server.Statements(), time.Now()
	for tick := time.Tick(200 * time.Millisecond); server.Statements()-before < 3; <-tick {
		if time.Since(start) > 10*busyTTL {
			t.Fatalf("no renewals; the first lock ended with %v", context.Cause(held))
		}
	}
	if n := server.Statements() - before; n > int64(most) {
		t.Errorf("%d statements in %v renew 1,000 locks", n, time.Since(start))
	}
}

const key = "k"

func mustLock(t *testing.T, l lock.Locker) (held context.Context, unlock func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	held, unlock, err := l.Lock(ctx, key)
	check(t, err)
	return held, unlock
}

func wantHeld(t *testing.T, l lock.Locker) {
	t.Helper()
	if _, _, err := l.TryLock(t.Context(), key); !errors.Is(err, lock.ErrHeld) {
		t.Fatalf("TryLock of a lock that is held returns %v", err)
	}
}

// wantLost waits for the end of a lock that the server cannot have renewed since. That it ends in time is what tests of
// the keeper say: here the machine may stand still.
func wantLost(t *testing.T, held context.Context, since time.Time, ttl time.Duration) {
	t.Helper()
	<-held.Done()
	if t.Logf("held ended after %v of %v", time.Since(since), ttl); !errors.Is(context.Cause(held), lock.ErrLost) {
		t.Errorf("held ended with %v", context.Cause(held))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
