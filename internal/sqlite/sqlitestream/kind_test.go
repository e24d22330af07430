package sqlitestream_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/stream"
)

var calls atomic.Int64

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, s *sqlitestream.Store) map[string]error {
	k := key(fmt.Sprint("all", calls.Add(1)))
	errs := make(map[string]error)
	_, errs["Append"] = s.Append(ctx, k, "r-1", 1, stream.Ended, docs(2))
	_, _, _, errs["Last"] = s.Last(ctx, k)
	if _, errs["Read"] = readError(ctx, s, k, stream.Newest); errs["Read"] == nil {
		_, errs["Read"] = readError(ctx, s, k, 0)
	}
	_, errs["Sweep"] = s.Sweep(ctx, 10)
	errs["Delete"] = s.Delete(ctx, k)
	return errs
}

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqlitestream.Store]{
	New: func(db *sql.DB, prefix string) *sqlitestream.Store {
		return sqlitestream.New(db, &sqlitestream.Options{Prefix: prefix})
	},
	CallAll: callAll,
	Longest: "streams",
	DSN:     sqlitestream.ErrDSN, Schema: stream.ErrSchema, Damaged: stream.ErrDamaged, Refused: stream.ErrRefused,
	Verdicts: []error{stream.ErrInvalid, stream.ErrGone},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_streams; DROP TABLE IF EXISTS holdfast_chunks",
		[]sqlitetest.Missing{
			{Name: "table", Spoil: "DROP TABLE holdfast_streams", Says: "table holdfast_streams"},
			{Name: "chunks", Spoil: "DROP TABLE holdfast_chunks", Says: "table holdfast_chunks", Untouched: "Last Sweep Delete"},
			{
				Name: "column", Spoil: "ALTER TABLE holdfast_chunks DROP COLUMN run",
				Says: "column run of table holdfast_chunks", Untouched: "Last Sweep Delete",
			},
		})
}

func TestClosed(t *testing.T) { kind.TestClosed(t) }

func TestPrefix(t *testing.T) { kind.TestPrefix(t) }

func TestTwoPrefixes(t *testing.T) { kind.TestTwoPrefixes(t) }

func TestFileGone(t *testing.T) { kind.TestFileGone(t) }

func TestReadOnly(t *testing.T) { kind.TestReadOnly(t) }

func TestNoTables(t *testing.T) {
	kind.TestNoTables(t, func(db *sql.DB) error { return migrations.Up(t.Context(), db, migrations.SQLite) })
}

func TestReadOnlyMount(t *testing.T) { kind.TestReadOnlyMount(t) }

func TestNoGoroutineLeft(t *testing.T) { kind.TestNoGoroutineLeft(t) }
