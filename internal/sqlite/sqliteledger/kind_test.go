package sqliteledger_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
)

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqliteledger.Ledger]{
	New: func(db *sql.DB, prefix string) *sqliteledger.Ledger {
		return sqliteledger.New(db, &sqliteledger.Options{Prefix: prefix})
	},
	CallAll: callAll,
	Longest: "effects_session",
	DSN:     sqliteledger.ErrDSN, Schema: ledger.ErrSchema,
	Damaged: ledger.ErrDamaged, Refused: ledger.ErrRefused,
	Verdicts: []error{ledger.ErrInvalid, ledger.ErrNotFound, lock.ErrFenced},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_effects; DROP TABLE IF EXISTS holdfast_effect_fences",
		[]sqlitetest.Missing{
			{
				Name: "table", Spoil: "DROP TABLE holdfast_effects",
				Says: "table holdfast_effects", Untouched: "",
			},
			{
				Name: "fences", Spoil: "DROP TABLE holdfast_effect_fences",
				Says: "table holdfast_effect_fences", Untouched: "Finish Effects",
			},
			{
				Name: "column", Spoil: "ALTER TABLE holdfast_effects DROP COLUMN answered_by",
				Says: "column answered_by of table holdfast_effects", Untouched: "Adopt Prune",
			},
			{
				Name: "newest column", Spoil: "ALTER TABLE holdfast_effects DROP COLUMN unsure",
				Says: "column unsure of table holdfast_effects", Untouched: "Adopt Prune",
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
