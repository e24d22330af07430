package pgsnapshot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, func(t *testing.T) snapshot.Store { return open(t, nil, nil) })
}

func TestSweep(t *testing.T) {
	t.Parallel()
	snapshottest.RunSweeper(t, func(t *testing.T, remember time.Duration) snapshottest.SweepingStore {
		return open(t, nil, &pgsnapshot.Options{Remember: remember})
	})
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The store
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			snapshottest.Run(t, numbered(pool(t, func(c *pgxpool.Config) {
				c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
			})))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(*pgxpool.Config){
		"one connection": func(c *pgxpool.Config) {
			c.MaxConns = 1
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		},
		"simple protocol": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.Run(t, numbered(pool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pooler := testenv.StartPgBouncer(t, testenv.StartPostgres(t, nil))
	p, err := pgxpool.New(t.Context(), pooler.URL+"&pool_max_conns=16&default_query_exec_mode=cache_describe")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snapshottest.Run(t, numbered(p))
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("the store leaves behind %q", left)
	}
}

// numbered returns a maker of stores on one pool, each with its own tables.
func numbered(p *pgxpool.Pool) func(*testing.T) snapshot.Store {
	return numberedWith(p, "s", pgsnapshot.Options{})
}

func numberedWith(p *pgxpool.Pool, prefix string, o pgsnapshot.Options) func(*testing.T) snapshot.Store {
	n := 0
	return func(t *testing.T) snapshot.Store {
		n++
		o.Prefix = fmt.Sprintf("%s%d_", prefix, n)
		return create(t, p, &o)
	}
}

func BenchmarkStore(b *testing.B) { snapshottest.Bench(b, open(b, nil, nil)) }

func open(tb testing.TB, configure func(*pgxpool.Config), o *pgsnapshot.Options) *pgsnapshot.Store {
	tb.Helper()
	return create(tb, pool(tb, configure), o)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pgsnapshot.Options) *pgsnapshot.Store {
	tb.Helper()
	s := pgsnapshot.New(p, o)
	if _, err := p.Exec(tb.Context(), s.Schema()); err != nil {
		tb.Fatal(err)
	}
	return s
}

// pool opens a fresh schema with the test's own configuration.
func pool(tb testing.TB, configure func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	if configure == nil {
		configure = func(*pgxpool.Config) {}
	}
	return poolOn(tb, testenv.PostgresURL(tb), configure)
}

func poolOn(tb testing.TB, url string, configure func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	configure(c)
	p, err := pgxpool.NewWithConfig(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}
