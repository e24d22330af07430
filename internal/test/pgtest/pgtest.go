// Package pgtest has what the tests of the stores on PostgreSQL share: pools as people configure them, waiting for a
// server, and counting what it does.
package pgtest

import (
	"maps"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Pool opens a pool on a fresh schema until the test ends. The schema is dropped after the pool is closed.
func Pool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return PoolOn(tb, testenv.PostgresURL(tb), configure...)
}

// EmptyPool is Pool on a schema without tables, for tests that create the tables of their store.
func EmptyPool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return PoolOn(tb, testenv.PostgresSchema(tb), configure...)
}

// PoolWith is Pool on a schema that has only what the given statements create.
func PoolWith(tb testing.TB, create string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return PoolOn(tb, testenv.PostgresSchema(tb, create), configure...)
}

// PoolOn opens a pool until the test ends.
func PoolOn(tb testing.TB, url string, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range configure {
		f(c)
	}
	p, err := pgxpool.NewWithConfig(tb.Context(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// OneConnection makes a pool of one connection. It keeps the plans that it has made, and flushes its own statistics.
func OneConnection(c *pgxpool.Config) { c.MaxConns = 1 }

// Isolation makes a level of isolation the default, as a role or a database may.
func Isolation(level string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level }
}

// Commit makes a level of synchronous_commit the default, as a role or a database may.
func Commit(level string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = level }
}

// Behind are pools as people configure them for a pooler in front of a server.
var Behind = map[string]func(*pgxpool.Config){
	"one connection": func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		Odd(c)
	},
	"simple protocol": func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		Odd(c)
	},
}

// Odd makes settings the default that change what the server reads and writes as text. A role or a database may. Under
// the simple protocol every value is text.
func Odd(c *pgxpool.Config) {
	maps.Copy(c.ConnConfig.RuntimeParams, map[string]string{
		"DateStyle": "German, MDY", "IntervalStyle": "sql_standard", "TimeZone": "Asia/Kathmandu",
		"extra_float_digits": "-15", "bytea_output": "escape", "array_nulls": "off", "transform_null_equals": "on",
	})
}

// BehindSerializable is Behind, with transactions that are serializable by default if there is more than one
// connection.
var BehindSerializable = map[string]func(*pgxpool.Config){
	"one connection": Behind["one connection"],
	"simple protocol": func(c *pgxpool.Config) {
		Behind["simple protocol"](c)
		Isolation("serializable")(c)
	},
}

// PgBouncer runs a test behind PgBouncer in transaction mode: each transaction is on another connection than the one
// before. It fails if the test leaves anything behind in a connection.
func PgBouncer(t *testing.T, test func(p *pgxpool.Pool)) {
	pooler := testenv.StartPgBouncer(t, testenv.StartPostgres(t, nil))
	test(PoolOn(t, pooler.URL+"&pool_max_conns=16&default_query_exec_mode=cache_describe"))
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// Create creates the tables of s and returns it.
func Create[S interface{ Schema() string }](tb testing.TB, p *pgxpool.Pool, s S) S {
	tb.Helper()
	Exec(tb, p, s.Schema())
	return s
}

// Exec executes a statement.
func Exec(tb testing.TB, p *pgxpool.Pool, sql string, args ...any) {
	tb.Helper()
	if _, err := p.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// Clear deletes all rows of the schema of p. Tests that run one after the other can share the schema then: a schema and
// a connection for each cost more than most tests. No test before may have given up a call: its statement may still
// come, and write a row.
func Clear(tb testing.TB, p *pgxpool.Pool) {
	tb.Helper()
	deletes := Value[string](tb, p, `SELECT string_agg('DELETE FROM ' || oid::regclass, '; ') FROM pg_class
		WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'`)
	Exec(tb, p, deletes, pgx.QueryExecModeSimpleProtocol)
}

// Value returns the one value that a statement reads.
func Value[T any](tb testing.TB, p *pgxpool.Pool, sql string, args ...any) (v T) {
	tb.Helper()
	if err := p.QueryRow(tb.Context(), sql, args...).Scan(&v); err != nil {
		tb.Fatal(err)
	}
	return v
}

// AwaitBlocked waits until a session waits for a lock of tx. It fails the test after a minute.
func AwaitBlocked(tb testing.TB, p *pgxpool.Pool, tx pgx.Tx) {
	tb.Helper()
	const sql = "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))"
	for start := time.Now(); Value[int](tb, p, sql, tx.Conn().PgConn().PID()) == 0; {
		if time.Since(start) > time.Minute {
			tb.Fatal("no session waits for the transaction")
		}
	}
}
