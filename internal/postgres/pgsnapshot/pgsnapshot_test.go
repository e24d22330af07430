package pgsnapshot_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
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
			snapshottest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level))))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.Run(t, numbered(pgtest.EmptyPool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { snapshottest.Run(t, numbered(p)) })
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
	if configure == nil {
		configure = func(*pgxpool.Config) {}
	}
	return pgsnapshot.New(pgtest.PoolWith(tb, pgsnapshot.New(nil, o).Schema(), configure), o)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pgsnapshot.Options) *pgsnapshot.Store {
	tb.Helper()
	return pgtest.Create(tb, p, pgsnapshot.New(p, o))
}
