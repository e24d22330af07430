package pgstream_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/pgstream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, cleared(t, pgtest.EmptyPool(t), nil))
}

// Two stores on one server are as two processes.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	first := pgtest.EmptyPool(t)
	second := pgtest.PoolOn(t, first.Config().ConnString())
	newStore := cleared(t, first, nil)
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) { return newStore(t), pgstream.New(second, nil) })
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The store
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			streamtest.Run(t, cleared(t, pgtest.EmptyPool(t, pgtest.Isolation(level)), nil))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamtest.Run(t, cleared(t, pgtest.EmptyPool(t, configure), nil))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before. No
// connection listens there.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { streamtest.Run(t, cleared(t, p, nil)) })
}

// The prefix may name a schema, and need quotes.
func TestStoreQualified(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	schema := pgtest.Value[string](t, p, "SELECT current_schema()")
	streamtest.Run(t, cleared(t, p, &pgstream.Options{Prefix: schema + ".My_"}))
}

// cleared returns a maker of stores, for tests that run one after the other. They have the same tables, which are empty
// each time.
func cleared(t *testing.T, p *pgxpool.Pool, o *pgstream.Options) func(*testing.T) stream.Store {
	t.Helper()
	table := create(t, p, o).Fill("{streams}")
	return func(t *testing.T) stream.Store {
		pgtest.Clear(t, p, table)
		return pgstream.New(p, o)
	}
}

func open(tb testing.TB, configure ...func(*pgxpool.Config)) *pgstream.Store {
	tb.Helper()
	return pgstream.New(pgtest.PoolWith(tb, pgstream.New(nil, nil).Schema(), configure...), nil)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pgstream.Options) *pgstream.Store {
	tb.Helper()
	return pgtest.Create(tb, p, pgstream.New(p, o))
}
