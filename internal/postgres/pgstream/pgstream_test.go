package pgstream_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) stream.Store { return open(t) })
}

// Two stores on one server are as two processes.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
		first := pgtest.EmptyPool(t)
		second := pgtest.PoolOn(t, first.Config().ConnString())
		return create(t, first, nil), pgstream.New(second, nil)
	})
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The store
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			streamtest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level))))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			streamtest.Run(t, numbered(pgtest.EmptyPool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before. No
// connection listens there.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { streamtest.Run(t, numbered(p)) })
}

// The prefix may name a schema, and need quotes.
func TestStoreQualified(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	schema := pgtest.Value[string](t, p, "SELECT current_schema()")
	n := 0
	streamtest.Run(t, func(t *testing.T) stream.Store {
		n++
		return create(t, p, &pgstream.Options{Prefix: fmt.Sprintf("%s.My%d_", schema, n)})
	})
}

// numbered returns a maker of stores on one pool, each with its own tables.
func numbered(p *pgxpool.Pool) func(*testing.T) stream.Store {
	n := 0
	return func(t *testing.T) stream.Store {
		n++
		return create(t, p, &pgstream.Options{Prefix: fmt.Sprintf("s%d_", n)})
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
