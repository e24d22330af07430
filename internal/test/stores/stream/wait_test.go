package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

func await(t *testing.T, what string, want int, got func() int) {
	t.Helper()
	for start := time.Now(); got() != want; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d %s, want %d", got(), what, want)
		}
	}
}

// processes returns the stores of two processes on a server that only this test uses. admin has a pool of its own.
func processes(t *testing.T, o *testenv.Options) (server *testenv.Server, admin *pgxpool.Pool, a, b stream.Store) {
	t.Helper()
	named := func(name string) func(c *pgxpool.Config) {
		return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = name; c.MaxConns = 8 }
	}
	server, _, a = onPostgres.Private(t, o)
	admin = pgtest.PoolOn(t, server.URL, named("admin"), pgtest.OneConnection)
	return server, admin, a, onPostgres.New(pgtest.PoolOn(t, server.URL, named("reader")), "")
}

// listening are the connections of the readers' process that listen.
const listening = `application_name = 'reader' AND query LIKE 'LISTEN%'`

func awaitListening(t *testing.T, admin *pgxpool.Pool, want int) {
	t.Helper()
	await(t, "connections listen", want, func() int {
		return pgtest.Value[int](t, admin, "SELECT count(*) FROM pg_stat_activity WHERE "+listening)
	})
}

// subscribed waits until n connections have a subscription.
func subscribed(t *testing.T, admin *redis.Client, n int) {
	t.Helper()
	await(t, "connections have a subscription", n, func() int {
		all, err := admin.Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		check(t, err)
		return strings.Count(all, "\n")
	})
}

// during returns how much a count grows in each two seconds while readers wait.
func during(count func() int) int {
	const quiet = time.Second
	time.Sleep(quiet) // until the readers that came last have looked once more
	before, began := count(), time.Now()
	time.Sleep(2 * quiet)
	return (count() - before) / int(time.Since(began)/(2*quiet))
}

// A thousand readers that wait cost one connection and a few statements. When they have left, no connection listens,
// and the pool has all of its connections.
func TestPostgresCrowd(t *testing.T) {
	t.Parallel()
	server, admin, writer, reader := processes(t, &testenv.Options{Count: true})
	tailtest.Crowd(t, writer, reader, 1000, func() {
		awaitListening(t, admin, 1)
		if n := during(func() int { return int(server.Statements()) }); n > 20 {
			t.Errorf("%d statements while 1000 readers wait", n)
		}
	})
	awaitListening(t, admin, 0)
}

// A thousand readers that wait cost one connection and a few commands. When they have left, it is closed.
func TestRedisCrowd(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	writer, other := redistest.Another(t, admin), redistest.Another(t, admin)
	tailtest.Crowd(t, onRedis.New(writer, ""), onRedis.New(other, ""), 1000, func() {
		subscribed(t, admin, 1)
		n := during(func() int { return redistest.Stats(t, admin)["cmdstat_evalsha"] })
		if n > 1000 { // one question for each, at most
			t.Errorf("%d commands while 1000 readers wait", n)
		}
		if n := other.PoolStats().TotalConns; n > 20 {
			t.Errorf("the pool has %d connections", n)
		}
	})
	subscribed(t, admin, 0)
}

// A thousand readers that wait leave the file to its writers.
func TestSQLiteCrowd(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	first, second := sqlitetest.Open(t, dsn), sqlitetest.Open(t, dsn)
	writer, reader := onSQLite(t, first, options{}), onSQLite(t, second, options{})
	tailtest.Crowd(t, writer, reader, 1000, func() {
		began := time.Now()
		for range 20 {
			add(t, writer, key("other"), 1, stream.Active, 1)
		}
		took := time.Since(began)
		if t.Logf("20 appends take %v beside the readers", took); redistest.Soak() && took > 2*time.Second {
			t.Error("that is too long")
		}
	})
	if n := second.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	delay(t, "sqlite", writer, reader, 150*time.Millisecond)
}

// cutAll makes each cut while readers wait.
func cutAll(t *testing.T, writer, reader stream.Store, cuts map[string]func()) {
	for name, cut := range cuts {
		t.Run(name, func(t *testing.T) { tailtest.Cut(t, writer, reader, cut) })
		check(t, writer.Delete(t.Context(), stream.Key{Orchestrator: "cut", Session: "s"}))
	}
}

// The listener is killed, and all connections are. The server restarts.
func TestPostgresCut(t *testing.T) {
	t.Parallel()
	server, admin, writer, reader := processes(t, nil)
	kill := func(which string) {
		pgtest.Exec(t, admin,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> 'admin' AND "+which)
	}
	cutAll(t, writer, reader, map[string]func(){
		"listener": func() {
			awaitListening(t, admin, 1)
			kill(listening)
		},
		"all": func() { kill("backend_type = 'client backend'") },
		"restart": func() {
			// Without this the crash would lose the last chunks, and their numbers would be given again.
			pgtest.Exec(t, admin, "CHECKPOINT")
			server.Kill()
			server.Restart()
			for admin.Ping(t.Context()) != nil { // it still has the connection that is lost
			}
		},
	})
}

// The subscription is killed, and all connections are. The server restarts, with what it had.
func TestRedisCut(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{
		"appendonly": "yes", "appendfsync": "always",
	}})
	where, err := redis.ParseURL(server.URL)
	check(t, err)
	admin := redis.NewClient(where)
	defer admin.Close()
	writer, reader := onRedis.New(redistest.Another(t, admin), ""), onRedis.New(redistest.Another(t, admin), "")
	kill := func(what ...any) {
		check(t, admin.Do(t.Context(), append([]any{"CLIENT", "KILL", "TYPE"}, what...)...).Err())
	}
	cutAll(t, writer, reader, map[string]func(){
		"subscription": func() {
			subscribed(t, admin, 1)
			kill("pubsub")
		},
		"all": func() {
			kill("normal", "SKIPME", "yes")
			kill("pubsub")
		},
		"restart": func() { server.Kill(); server.Restart() },
	})
}

// delay checks that a chunk reaches a reader in another process soon after it was appended. The engine collects events
// for 50 ms before.
func delay(t *testing.T, what string, writer, reader stream.Store, most time.Duration) {
	t.Helper()
	if !redistest.Soak() { // on a busy machine: what is not told comes even later
		most *= 10
	}
	quarter, longest := tailtest.Delay(t, writer, reader, 20)
	if t.Logf("%s: a quarter of the chunks take %v, all %v at most", what, quarter, longest); quarter > most {
		t.Errorf("%s: a chunk takes %v", what, quarter)
	}
	check(t, writer.Delete(t.Context(), stream.Key{Orchestrator: "delay", Session: "s"}))
}

func TestPostgresDelay(t *testing.T) {
	t.Parallel()
	first := pgtest.EmptyPool(t)
	writer := onPostgres.On(t, first, "")
	for name, configure := range map[string]func(*pgxpool.Config){
		"listening": func(*pgxpool.Config) {},
		"asking":    pgtest.OneConnection,
	} {
		reader := onPostgres.New(pgtest.PoolOn(t, first.Config().ConnString(), configure), "")
		delay(t, name, writer, reader, 200*time.Millisecond)
	}
}

func TestRedisDelay(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	writer := onRedis.New(client, prefix)
	delay(t, "subscribed", writer, onRedis.New(redistest.Another(t, client), prefix), 50*time.Millisecond)
	delay(t, "asking", writer, onRedis.New(another{redistest.Another(t, client)}, prefix), time.Minute)
}

// The readers of one pool listen on one connection, also if they come and go, and the connection is as it was.
func TestPostgresConnectionIsGivenBack(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := onPostgres.On(t, p, "")
	for i := range 20 {
		k := key(fmt.Sprint("s", i))
		tailtest.Append(t, s, k, stream.Active)
		readers := []*tailtest.Reader{tailtest.Read(t, s, k, 0), tailtest.Read(t, s, k, 1)}
		tailtest.Append(t, s, k, stream.Ended)
		for _, r := range readers {
			check(t, r.End())
		}
	}
	// The pool closes what was cut off in a goroutine of its own.
	await(t, "connections are in use", 0, func() int { return int(p.Stat().AcquiredConns()) })
	for range p.Stat().TotalConns() {
		c, err := p.Acquire(t.Context())
		check(t, err)
		defer c.Release()
		var channels int
		err = c.QueryRow(t.Context(), "SELECT count(*) FROM pg_listening_channels()").Scan(&channels)
		if err != nil || channels != 0 {
			t.Errorf("a connection listens on %d channels, %v", channels, err)
		}
	}
}

// No call fails while slots move, and readers get each chunk.
func TestRedisSlotsMove(t *testing.T) {
	t.Parallel()
	nodes, client := redistest.Nodes(t)
	other := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs})
	defer other.Close()
	m := redistest.Moves{
		Tags: []string{"{bot/s0}", "{bot/s1}", "{bot/s2}"},
		Live: func(ctx context.Context, w, n int) error {
			o := &redisstream.Options{Prefix: fmt.Sprintf("p%d:", n), Keep: 4}
			return live(ctx, redisstream.New(client, o), redisstream.New(other, o), key(fmt.Sprint("s", w)))
		},
	}
	m.Run(t, nodes, client)
}

// live shows one turn in a process, and reads it in another.
func live(ctx context.Context, writer, reader stream.Store, k stream.Key) error {
	if _, err := writer.Append(ctx, k, "r", 1, stream.Active, docs(1)); err != nil {
		return err
	}
	seen := make(chan error, 1)
	go func() {
		n, err := read(ctx, reader, k, 0)
		if err == nil && n != 10 {
			err = fmt.Errorf("%d chunks, want 10", n)
		}
		if errors.Is(err, stream.ErrGone) {
			err = nil // it was slow
		}
		seen <- err
	}()
	for _, status := range []stream.Status{stream.Active, stream.Active, stream.Ended} {
		if _, err := writer.Append(ctx, k, "r", 1, status, docs(3)); err != nil {
			return err
		}
	}
	return errors.Join(<-seen, writer.Delete(ctx, k))
}
