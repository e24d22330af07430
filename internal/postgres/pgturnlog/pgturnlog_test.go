package pgturnlog_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLog(t *testing.T) {
	t.Parallel()
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log { return open(t) })
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	n := 0
	newLog := func(t *testing.T) turnlog.Lister {
		n++
		return create(t, p, &pgturnlog.Options{Prefix: fmt.Sprintf("l%d_", n)})
	}
	faulttest.TurnLogModel(t, newLog)
	faulttest.TurnLogHistories(t, newLog, faulttest.Histories())
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The log
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			turnlogtest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level))))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turnlogtest.Run(t, numbered(pgtest.EmptyPool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { turnlogtest.Run(t, numbered(p)) })
}

// The prefix may name a schema, and need quotes.
func TestStoreQualified(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	schema := pgtest.Value[string](t, p, "SELECT current_schema()")
	n := 0
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
		n++
		return create(t, p, &pgturnlog.Options{Prefix: fmt.Sprintf("%s.My%d_", schema, n)})
	})
}

// numbered returns a maker of logs on one pool, each with its own tables.
func numbered(p *pgxpool.Pool) func(*testing.T) turnlog.Log {
	n := 0
	return func(t *testing.T) turnlog.Log {
		n++
		return create(t, p, &pgturnlog.Options{Prefix: fmt.Sprintf("l%d_", n)})
	}
}

func open(tb testing.TB, configure ...func(*pgxpool.Config)) *pgturnlog.Log {
	tb.Helper()
	return pgturnlog.New(pgtest.PoolWith(tb, pgturnlog.New(nil, nil).Schema(), configure...), nil)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pgturnlog.Options) *pgturnlog.Log {
	tb.Helper()
	return pgtest.Create(tb, p, pgturnlog.New(p, o))
}

// private returns a log on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgturnlog.Log) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := pgtest.PoolOn(t, server.URL)
	return server, p, create(t, p, nil)
}

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func entry(run, phase string, ms int) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Turn: 3, Orchestrator: "bot", Session: "session", Phase: phase, State: json.RawMessage(`{"n":1}`), At: at(ms),
	}
}

func record(t *testing.T, l turnlog.Log, all ...turnlog.Entry) {
	t.Helper()
	for _, e := range all {
		if err := l.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// runs returns the runs that a query selects, and how many of them are damaged.
func runs(t *testing.T, l turnlog.Lister, q turnlog.Query) (all []string) {
	t.Helper()
	for s, err := range l.Turns(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s.First.Run)
	}
	return all
}
