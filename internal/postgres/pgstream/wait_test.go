package pgstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

// processes returns the stores of two processes on a server that only this test uses. admin has a pool of its own.
func processes(t *testing.T, o *testenv.Options) (server *testenv.Server, admin *pgxpool.Pool, a, b *pgstream.Store) {
	t.Helper()
	server = testenv.StartPostgres(t, o)
	admin = pgtest.PoolOn(t, server.URL, pgtest.OneConnection, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["application_name"] = "admin"
	})
	named := func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["application_name"] = "reader"; c.MaxConns = 8 }
	a = create(t, pgtest.PoolOn(t, server.URL), nil)
	return server, admin, a, pgstream.New(pgtest.PoolOn(t, server.URL, named), nil)
}

// listening are the connections of the readers' process that listen.
const listening = `application_name = 'reader' AND query LIKE 'LISTEN%'`

func awaitListening(t *testing.T, admin *pgxpool.Pool, want int) {
	t.Helper()
	sql := "SELECT count(*) FROM pg_stat_activity WHERE " + listening
	for start := time.Now(); pgtest.Value[int](t, admin, sql) != want; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d connections listen, want %d", pgtest.Value[int](t, admin, sql), want)
		}
	}
}

// A thousand readers that wait cost one connection and a few statements. When they have left, no connection listens,
// and the pool has all of its connections.
func TestCrowd(t *testing.T) {
	t.Parallel()
	server, admin, writer, reader := processes(t, &testenv.Options{Count: true})
	tailtest.Crowd(t, writer, reader, 1000, func() {
		awaitListening(t, admin, 1)
		const quiet = time.Second
		time.Sleep(quiet) // until the readers that came last have looked once more
		before := server.Statements()
		time.Sleep(2 * quiet)
		if n := server.Statements() - before; n > 20 {
			t.Errorf("%d statements in %v while 1000 readers wait", n, 2*quiet)
		}
	})
	awaitListening(t, admin, 0)
}

// The listener is killed, and all connections are. The server restarts.
func TestCut(t *testing.T) {
	t.Parallel()
	server, admin, writer, reader := processes(t, nil)
	kill := func(which string) {
		pgtest.Exec(t, admin,
			"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name <> 'admin' AND "+which)
	}
	for name, cut := range map[string]func(){
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
	} {
		t.Run(name, func(t *testing.T) { tailtest.Cut(t, writer, reader, cut) })
		if err := writer.Delete(t.Context(), stream.Key{Orchestrator: "cut", Session: "s"}); err != nil {
			t.Fatal(err)
		}
	}
}

// A chunk reaches a reader in another process soon after it was appended.
func TestDelay(t *testing.T) {
	t.Parallel()
	first := pgtest.EmptyPool(t)
	writer := create(t, first, nil)
	for name, configure := range map[string]func(*pgxpool.Config){
		"listening": func(*pgxpool.Config) {},
		"asking":    pgtest.OneConnection,
	} {
		reader := pgstream.New(pgtest.PoolOn(t, first.Config().ConnString(), configure), nil)
		quarter, longest := tailtest.Delay(t, writer, reader, 20)
		t.Logf("%s: a quarter of the chunks take %v, all %v at most", name, quarter, longest)
		// The engine collects events for 50 ms before.
		if quarter > 200*time.Millisecond {
			t.Errorf("%s: a chunk takes %v", name, quarter)
		}
		if err := writer.Delete(t.Context(), stream.Key{Orchestrator: "delay", Session: "s"}); err != nil {
			t.Fatal(err)
		}
	}
}

// The readers of one pool listen on one connection, also if they come and go, and the connection is as it was.
func TestConnectionIsGivenBack(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	for i := range 20 {
		k := stream.Key{Orchestrator: "bot", Session: fmt.Sprint("s", i)}
		tailtest.Append(t, s, k, stream.Active)
		readers := []*tailtest.Reader{tailtest.Read(t, s, k, 0), tailtest.Read(t, s, k, 1)}
		tailtest.Append(t, s, k, stream.Ended)
		for _, r := range readers {
			if err := r.End(); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The pool closes what was cut off in a goroutine of its own.
	for start := time.Now(); p.Stat().AcquiredConns() != 0; {
		if time.Since(start) > time.Minute {
			t.Fatalf("%d connections are in use", p.Stat().AcquiredConns())
		}
	}
	for range p.Stat().TotalConns() {
		c, err := p.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Release()
		var channels int
		err = c.QueryRow(t.Context(), "SELECT count(*) FROM pg_listening_channels()").Scan(&channels)
		if err != nil || channels != 0 {
			t.Errorf("a connection listens on %d channels, %v", channels, err)
		}
	}
}
