package pgtest

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Statements counts at the server how many statements f costs. The server counts if its [testenv.Options] say so.
func Statements(t *testing.T, server *testenv.Server, what string, want int64, f func() error) {
	t.Helper()
	before := server.Statements()
	if err := f(); err != nil {
		t.Fatal(err)
	}
	if got := server.Statements() - before; got != want {
		t.Errorf("%s: %d statements, want %d", what, got, want)
	}
}

// Lazy returns settings of a server that does not wait for its disk by default. A wal_writer_flush_after of 0 would
// flush at once.
func Lazy() map[string]string {
	return map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}
}

// Unflushed returns how many bytes of the log are not on the disk yet.
func Unflushed(tb testing.TB, p *pgxpool.Pool) int64 {
	tb.Helper()
	return Value[int64](tb, p, "SELECT (pg_current_wal_insert_lsn() - pg_current_wal_flush_lsn())::bigint")
}

// Costs returns Statements of a server.
func Costs(t *testing.T, server *testenv.Server) func(what string, want int64, do func() error) {
	return func(what string, want int64, do func() error) {
		t.Helper()
		Statements(t, server, what, want, do)
	}
}

// Blocks fails if a call touches more than most blocks of a table or an index, with and without statistics. calls
// returns the calls by name. Each is made twice, with 0 and 1, and the second one counts. The pool has one connection.
func Blocks(
	t *testing.T, server *testenv.Server, p *pgxpool.Pool, most int64, calls func(known string) map[string]func(n int),
) {
	t.Helper()
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset() // plans are made anew
		for what, do := range calls(known) {
			do(0) // plans, and what is read of the catalog once
			before := server.Blocks()
			do(1)
			touched := server.Blocks() - before
			if t.Logf("with %s known, %s: %d blocks", known, what, touched); touched > most {
				t.Errorf("with %s known, %s touches %d blocks", known, what, touched)
			}
		}
		Exec(t, p, "ANALYZE")
	}
}

// Durable makes calls on a server with the settings of Lazy. The calls that lazy names must not wait for the disk, and
// all others must. Now and then the server writes to its log for itself, so one round alone proves nothing.
func Durable(
	t *testing.T, p *pgxpool.Pool, round func(n int, call func(what string, do func() error)), lazy ...string,
) {
	t.Helper()
	const rounds = 20
	calls, unflushed := make(map[string]int), make(map[string]int)
	Exec(t, p, "CREATE TABLE beside (n integer)")
	call := func(what string, do func() error) {
		t.Helper()
		Exec(t, p, "INSERT INTO beside VALUES (1)") // which is not flushed
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if calls[what]++; Unflushed(t, p) > 0 {
			unflushed[what]++
		}
	}
	for n := range rounds {
		call("nothing", func() error { return nil })
		round(n, call)
	}
	for what, all := range calls {
		if n := unflushed[what]; what == "nothing" || slices.Contains(lazy, what) {
			if n < all/2 {
				t.Errorf("%s waits for the disk, or this test cannot tell", what)
			}
		} else if n > all/4 {
			t.Errorf("%s is not durable: %d times of %d", what, n, all)
		}
	}
}
