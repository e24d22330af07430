package pgtest

import (
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
