package sqlitesnapshot_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqlitesnapshot.Store]{
	New: func(db *sql.DB, prefix string) *sqlitesnapshot.Store {
		return sqlitesnapshot.New(db, &sqlitesnapshot.Options{Prefix: prefix})
	},
	CallAll: callAll,
	DSN:     sqlitesnapshot.ErrDSN, Schema: snapshot.ErrSchema,
	Damaged: snapshot.ErrDamaged, Refused: snapshot.ErrRefused,
	OneDamaged: func(err error) bool {
		_, one := errors.AsType[*snapshot.DamagedError](err)
		return one
	},
	Verdicts: []error{snapshot.ErrInvalid, lock.ErrFenced},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_runs; DROP TABLE IF EXISTS holdfast_run_parts",
		[]sqlitetest.Missing{
			{
				Name: "table", Spoil: "DROP TABLE holdfast_runs",
				Says: "table holdfast_runs", Untouched: "",
			},
			{
				Name: "parts", Spoil: "DROP TABLE holdfast_run_parts",
				Says: "table holdfast_run_parts", Untouched: "Adopt Save Runs Delete Sweep",
			},
			{
				Name: "index", Spoil: "DROP INDEX holdfast_runs_drain",
				Says: "index holdfast_runs_drain", Untouched: "Begin Adopt Save Runs Delete Sweep",
			},
			{
				Name: "column", Spoil: "ALTER TABLE holdfast_runs DROP COLUMN base",
				Says: "column base of table holdfast_runs", Untouched: "Delete Sweep",
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

// A database that cannot be opened takes no call.
func TestUnreachable(t *testing.T) {
	db := sqlitetest.Open(t, sqlitetest.DSN(filepath.Join(t.TempDir(), "missing", "test.db")))
	snapshottest.RunUnreachable(t, sqlitesnapshot.New(db, nil))
}
