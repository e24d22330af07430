package sqliteturnlog_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/turnlog"
)

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqliteturnlog.Log]{
	New: func(db *sql.DB, prefix string) *sqliteturnlog.Log {
		return sqliteturnlog.New(db, &sqliteturnlog.Options{Prefix: prefix})
	},
	CallAll: callAll,
	Longest: "logged_session",
	DSN:     sqliteturnlog.ErrDSN, Schema: turnlog.ErrSchema,
	Damaged: turnlog.ErrDamaged, Refused: turnlog.ErrRefused,
	Verdicts: []error{turnlog.ErrInvalid, turnlog.ErrChanged, turnlog.ErrPhase, turnlog.ErrState},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_phases; DROP TABLE IF EXISTS holdfast_logged",
		[]sqlitetest.Missing{
			{Name: "table", Spoil: "DROP TABLE holdfast_phases", Says: "table holdfast_phases", Untouched: "Prune"},
			{Name: "runs", Spoil: "DROP TABLE holdfast_logged", Says: "table holdfast_logged"},
			{
				Name: "column", Spoil: "ALTER TABLE holdfast_logged DROP COLUMN started",
				Says: "column started of table holdfast_logged", Untouched: "Restore Turns Prune",
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
