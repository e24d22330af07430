package testenv_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func newPool(t *testing.T, s *testenv.Server) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func newClient(t *testing.T, s *testenv.Server) *redis.Client {
	t.Helper()
	opts, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.ContextTimeoutEnabled = true
	c := redis.NewClient(opts)
	t.Cleanup(func() { c.Close() })
	return c
}

func mustExec(t *testing.T, p *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := p.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestPostgresKilledKeepsCommits(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, &testenv.Options{Durable: true})
	p := newPool(t, s)
	mustExec(t, p, "CREATE TABLE x (n int)")
	for n := range 3 {
		mustExec(t, p, "INSERT INTO x VALUES ($1)", n)
		s.Kill()
		if _, err := p.Exec(t.Context(), "SELECT 1"); err == nil {
			t.Fatal("a killed server answers")
		}
		s.Restart()
		p.Reset()
		var count int
		if err := p.QueryRow(t.Context(), "SELECT count(*) FROM x").Scan(&count); err != nil || count != n+1 {
			t.Fatalf("after crash %d: %d rows, %v", n, count, err)
		}
	}
}

func TestPostgresStopped(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, nil)
	p := newPool(t, s)
	mustExec(t, p, "SELECT 1")
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := p.Exec(ctx, "SELECT 1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped server says %v", err)
	}
	s.Continue()
	mustExec(t, p, "SELECT 1")
	s.Stop()
	s.Kill()
	s.Restart()
	p.Reset()
	mustExec(t, p, "SELECT 1")
	s.Restart() // the server still runs
	p.Reset()
	mustExec(t, p, "SELECT 1")
}

func TestPostgresStoppedAtTheEnd(t *testing.T) {
	t.Parallel()
	testenv.StartPostgres(t, nil).Stop()
}

func TestPostgresDiskFull(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, &testenv.Options{TmpfsMB: 64})
	p := newPool(t, s)
	mustExec(t, p, "CREATE TABLE x (n int, fill text)")
	s.FillDisk()
	const insert = "INSERT INTO x SELECT 1, repeat('x', 1000) FROM generate_series(1, 1000)"
	_, err := p.Exec(t.Context(), insert)
	if err == nil || !strings.Contains(err.Error(), "53100") {
		t.Errorf("on a full disk: %v", err)
	}
	s.FreeDisk()
	mustExec(t, p, insert)
}

func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	s := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := newPool(t, s)
	mustExec(t, p, "CREATE TABLE x (n int)")
	check := func(what string, want int64, f func() error) {
		t.Helper()
		before := s.Statements()
		if err := f(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := s.Statements() - before; got != want {
			t.Errorf("%s: %d statements, want %d", what, got, want)
		}
	}
	check("nothing", 0, func() error { return nil })
	check("new connection", 0, func() error { p.Reset(); return p.Ping(t.Context()) })
	check("two of one text", 2, func() error {
		mustExec(t, p, "INSERT INTO x VALUES ($1)", 1)
		mustExec(t, p, "INSERT INTO x VALUES ($1)", 2)
		return nil
	})
	check("transaction", 2, func() error {
		return pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL work_mem = '4MB'"); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), "UPDATE x SET n = n + 1"); err != nil {
				return err
			}
			return tx.QueryRow(t.Context(), "SELECT count(*) FROM x").Scan(new(int))
		})
	})
	check("pipeline", 3, func() error {
		b := new(pgx.Batch)
		b.Queue("INSERT INTO x VALUES ($1) RETURNING n", 3)
		b.Queue("SELECT n FROM x WHERE n = $1", 3)
		b.Queue("SELECT set_config('work_mem', '8MB', true)")
		return p.SendBatch(t.Context(), b).Close()
	})
	check("a function's own", 1, func() error {
		_, err := p.Exec(t.Context(), "DO $$ BEGIN DELETE FROM x; DELETE FROM x; END $$")
		return err
	})
}

// Clients share the connections to the server. No client keeps one for itself.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	pooler := testenv.StartPgBouncer(t, testenv.StartPostgres(t, nil))
	for _, clients := range []int{1, 20} {
		p, err := pgxpool.New(t.Context(),
			fmt.Sprintf("%s&pool_max_conns=%d&default_query_exec_mode=cache_describe", pooler.URL, clients))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		var mu sync.Mutex
		served := make(map[int]bool)
		var wg sync.WaitGroup
		for range 40 {
			wg.Go(func() {
				var pid int
				if err := p.QueryRow(t.Context(), "SELECT pg_backend_pid() FROM pg_sleep($1)",
					0.001).Scan(&pid); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				served[pid] = true
			})
		}
		wg.Wait()
		if len(served) < 2 || len(served) > testenv.PoolSize {
			t.Errorf("%d clients were served by %d connections, want 2 to %d", clients, len(served), testenv.PoolSize)
		}
	}
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("clients that leave nothing left %q", left)
	}
}

// LeftBehind sees the state that a client leaves behind, also when the client is gone.
func TestPgBouncerLeftBehind(t *testing.T) {
	t.Parallel()
	pooler := testenv.StartPgBouncer(t, testenv.StartPostgres(t, nil))
	traces := map[string]string{
		"SET synchronous_commit = off":            "setting synchronous_commit = off",
		"PREPARE x AS SELECT 1":                   "prepared statement PREPARE x AS SELECT 1",
		"DECLARE x CURSOR WITH HOLD FOR SELECT 1": "cursor DECLARE x CURSOR WITH HOLD FOR SELECT 1",
		"LISTEN x":                                   "channel x",
		"SELECT pg_advisory_lock(7)":                 "advisory lock 7",
		"CREATE TEMPORARY TABLE x (n int)":           "temporary table x",
		"BEGIN; SET LOCAL work_mem = '1MB'; COMMIT":  "",
		"SELECT set_config('work_mem', '1MB', true)": "",
	}
	var want []string
	conn, err := pgx.Connect(t.Context(), pooler.URL)
	if err != nil {
		t.Fatal(err)
	}
	for sql, trace := range traces {
		if _, err := conn.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if trace != "" {
			want = append(want, trace)
		}
	}
	slices.Sort(want)
	for _, state := range []string{"connected", "gone"} {
		left := pooler.LeftBehind()
		slices.Sort(left)
		if !slices.Equal(left, want) {
			t.Errorf("of a client that is %s the sessions have %q, want %q", state, left, want)
		}
		conn.Close(t.Context())
	}
	pooler.Restart()
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("new sessions have %q", left)
	}
}

func TestRedisKilled(t *testing.T) {
	t.Parallel()
	for _, durable := range []bool{true, false} {
		s := testenv.StartRedis(t, &testenv.Options{Durable: durable})
		c := newClient(t, s)
		if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		s.Kill()
		if err := c.Get(t.Context(), "k").Err(); err == nil || errors.Is(err, redis.Nil) {
			t.Errorf("a killed server says %v", err)
		}
		s.Restart()
		if n, err := c.Exists(t.Context(), "k").Result(); err != nil || (n == 1) != durable {
			t.Errorf("durable %v: after a crash %d of 1 keys, %v", durable, n, err)
		}
	}
}

func TestRedisStopped(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t, nil)
	c := newClient(t, s)
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Ping(ctx).Err(); err == nil {
		t.Error("a stopped server answers")
	}
	s.Continue()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}

func TestRedisDiskFull(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t, &testenv.Options{
		Durable: true, TmpfsMB: 16, Settings: map[string]string{"appendfsync": "everysec"},
	})
	c := newClient(t, s)
	s.FillDisk()
	full := func() error { return c.Set(t.Context(), "k", strings.Repeat("x", 1<<16), 0).Err() }
	eventually(t, "a full disk is noticed", func() bool { return full() != nil })
	s.FreeDisk()
	eventually(t, "a freed disk is noticed", func() bool { return full() == nil })
}

func TestRedisStatements(t *testing.T) {
	t.Parallel()
	s := testenv.StartRedis(t, &testenv.Options{Count: true})
	script := redis.NewScript("redis.call('SET', KEYS[1], 1) return redis.call('GET', KEYS[1])")
	for range 2 {
		c := newClient(t, s)
		before := s.Statements()
		if err := c.Set(t.Context(), "k", `"] "ping`, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := script.Eval(t.Context(), c, []string{"k"}).Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Get(t.Context(), "k")
			p.Del(t.Context(), "k")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if got := s.Statements() - before; got != 4 {
			t.Errorf("%d statements, want 4", got)
		}
		s.Restart()
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	c := testenv.StartRedisCluster(t, nil)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs})
	defer client.Close()
	for i := range 100 {
		if err := client.Set(t.Context(), strings.Repeat("k", i+1), i, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var sizes []int64
	for _, node := range c.Nodes {
		n := newClient(t, node).DBSize(t.Context()).Val()
		sizes = append(sizes, n)
		if n == 0 {
			t.Errorf("keys by node: %v", sizes)
		}
	}
	c.Nodes[1].Stop()
	c.Nodes[1].Continue()
	c.Nodes[2].Kill()
	c.Nodes[2].Restart()
	c.Ready()
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
