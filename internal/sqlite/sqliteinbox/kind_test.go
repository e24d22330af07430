package sqliteinbox_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/migrations"
)

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqliteinbox.Store]{
	New: func(db *sql.DB, prefix string) *sqliteinbox.Store {
		return sqliteinbox.New(db, &sqliteinbox.Options{Prefix: prefix})
	},
	CallAll: callAll,
	Longest: "inbox_order",
	DSN:     sqliteinbox.ErrDSN, Schema: inbox.ErrSchema,
	Damaged: inbox.ErrDamaged, Refused: inbox.ErrRefused,
	Verdicts: []error{inbox.ErrInvalid},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_inbox", []sqlitetest.Missing{
		{Name: "table", Spoil: "DROP TABLE holdfast_inbox", Says: "table holdfast_inbox"},
		{
			Name: "column", Spoil: "ALTER TABLE holdfast_inbox DROP COLUMN shown",
			Says: "column shown of table holdfast_inbox", Untouched: "Remove",
		},
		{Name: "index", Spoil: "DROP INDEX holdfast_inbox_order", Says: "index holdfast_inbox_order", Untouched: "Post Remove"},
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
