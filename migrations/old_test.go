package migrations_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/migrations"
)

// firstTables makes the tables of the first commit, whose only migration was changed later. goose records that it was
// applied.
func firstTables(t *testing.T, sys system, db *sql.DB) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "first", string(sys.dialect)+".sql"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider(t, sys, db, "holdfast_schema_version").UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, s := range sys.stores("")[:1] { // of checkpoints
		for _, table := range []string{"turns", "sessions", "sessions_sweep", "watches", "beats"} {
			if strings.Contains(s.Schema(), "holdfast_"+table) {
				must(t, db, "DROP TABLE holdfast_"+table)
			}
		}
	}
	must(t, db, string(text))
}

// wantServed claims a session in a store of checkpoints.
func wantServed(t *testing.T, sys system, dsn string, db *sql.DB) {
	t.Helper()
	var store checkpoint.Store = sqlitecheckpoint.New(db, nil)
	if sys.dialect == migrations.Postgres {
		pool, err := pgxpool.New(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		store = pgcheckpoint.New(pool, nil)
	}
	_, err := store.Claim(t.Context(), checkpoint.Key{Orchestrator: "bot", Session: "a"},
		checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	if err != nil {
		t.Errorf("Claim: %v", err)
	}
}

// Up returns nil only if the stores can use the tables. Otherwise it changes nothing, names what is missing, and says
// what to do, which helps.
func TestUpOnOldTables(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		db := connect(t, sys, dsn)
		firstTables(t, sys, db)
		before := catalog(t, sys, db)
		err := migrations.Up(t.Context(), db, sys.dialect)
		if !errors.Is(err, migrations.ErrBehind) {
			t.Fatalf("Up: %v, want %v", err, migrations.ErrBehind)
		}
		for _, part := range []string{
			"column holdfast_sessions.failed, column holdfast_sessions.retry_at", "table holdfast_beats",
			"alter each table without a column by hand, to what the file 00001_checkpoints.sql defines",
			"for tables and indexes execute what Schema of the store returns",
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("Up: %q does not say %q", err, part)
			}
		}
		wantSame(t, "after Up", catalog(t, sys, db), before)

		kinds := map[migrations.Dialect]string{migrations.Postgres: "timestamptz", migrations.SQLite: "INTEGER"}
		must(t, db, "ALTER TABLE holdfast_sessions ADD COLUMN failed integer NOT NULL DEFAULT 0")
		must(t, db, "ALTER TABLE holdfast_sessions ADD COLUMN retry_at "+kinds[sys.dialect])
		for _, s := range sys.stores("") {
			must(t, db, s.Schema())
		}
		up(t, sys, db)
		wantServed(t, sys, dsn, db)
	})
}

// A column that was dropped from a schema of today is an error of Up, too.
func TestUpFindsWhatWasDropped(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		up(t, sys, db)
		must(t, db, "ALTER TABLE holdfast_effects DROP COLUMN unsure")
		err := migrations.Up(t.Context(), db, sys.dialect)
		const want = "missing column holdfast_effects.unsure: alter each table without a column by hand"
		if !errors.Is(err, migrations.ErrBehind) || !strings.Contains(err.Error(), want) {
			t.Errorf("Up: %v, want %s", err, want)
		}
	})
}
