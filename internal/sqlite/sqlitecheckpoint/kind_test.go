package sqlitecheckpoint_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/migrations"
)

// kind has the tests that each store on SQLite has to pass.
var kind = sqlitetest.Kind[*sqlitecheckpoint.Store]{
	New: func(db *sql.DB, prefix string) *sqlitecheckpoint.Store {
		return sqlitecheckpoint.New(db, &sqlitecheckpoint.Options{Prefix: prefix, TTL: time.Hour})
	},
	CallAll: callAll,
	DSN:     sqlitecheckpoint.ErrDSN, Schema: checkpoint.ErrSchema,
	Damaged: checkpoint.ErrDamaged, Refused: checkpoint.ErrRefused,
	OneDamaged: func(err error) bool {
		_, one := errors.AsType[*checkpoint.DamagedError](err)
		return one
	},
	Verdicts: []error{checkpoint.ErrInvalid},
}

func TestDSN(t *testing.T) { kind.TestDSN(t) }

func TestSchemaMissing(t *testing.T) {
	const sessions, turns = "DROP TABLE holdfast_sessions", "DROP TABLE holdfast_turns"
	kind.TestSchemaMissing(t, "DROP TABLE IF EXISTS holdfast_sessions; DROP TABLE IF EXISTS holdfast_turns",
		[]sqlitetest.Missing{
			{
				Name: "both", Spoil: sessions + ";" + turns,
				Says: "table holdfast_sessions", Untouched: "Sweep",
			},
			{
				Name: "turns", Spoil: turns,
				Says: "table holdfast_turns", Untouched: "Claim Renew Mark Sessions Delete Sweep",
			},
			{
				Name: "column", Spoil: "ALTER TABLE holdfast_turns DROP COLUMN version",
				Says: "column version of table holdfast_turns", Untouched: "Claim Renew Mark Sessions Delete Sweep",
			},
			{
				Name: "column of sessions", Spoil: "ALTER TABLE holdfast_sessions DROP COLUMN owner",
				Says: "column owner of table holdfast_sessions", Untouched: "Renew Mark Sessions Append Turns Sweep",
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
	checkpointtest.RunUnreachable(t, sqlitecheckpoint.New(db, nil))
}
