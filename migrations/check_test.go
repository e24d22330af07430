package migrations_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
)

// readOnly makes connections that refuse to write.
func readOnly(sys system, dsn string) string {
	if sys.dialect == migrations.Postgres {
		return with(dsn, "default_transaction_read_only", "on")
	}
	return dsn + "&_pragma=query_only(1)"
}

func TestCheckChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		err := migrations.Check(t.Context(), connect(t, sys, readOnly(sys, dsn)), sys.dialect)
		if !errors.Is(err, migrations.ErrBehind) {
			t.Fatalf("an empty database: %v", err)
		}
		for _, name := range []string{
			"migration 00001_checkpoints", "table holdfast_sessions", "table holdfast_turns",
		} {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%q does not name %s", err, name)
			}
		}
		if strings.Contains(err.Error(), "column") || strings.Contains(err.Error(), "index") {
			t.Errorf("%q names what goes with a table", err)
		}
		tables := "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
		if sys.dialect == migrations.SQLite {
			tables = "SELECT name FROM sqlite_master"
		}
		if names := column(t, connect(t, sys, dsn), tables); len(names) != 0 {
			t.Errorf("it created %q", names)
		}
	})
}

func TestCheckFindsWhatWasDropped(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		up(t, sys, db)
		if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
			t.Fatal(err)
		}
		wantBehind := func(want string) {
			t.Helper()
			err := migrations.Check(t.Context(), db, sys.dialect)
			if want = "the schema is behind: missing " + want; !errors.Is(err, migrations.ErrBehind) ||
				!strings.HasPrefix(err.Error(), "migrations: ") || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		}
		const (
			column = "alter each table without a column by hand, to what the file 00001_checkpoints.sql defines"
			schema = "for tables and indexes execute what Schema of the store returns"
		)
		must(t, db, "ALTER TABLE holdfast_turns DROP COLUMN payload")
		wantBehind("column holdfast_turns.payload: " + column)
		must(t, db, "DROP INDEX holdfast_turns_request")
		wantBehind("column holdfast_turns.payload, index holdfast_turns_request: " + column + "; " + schema)
		must(t, db, "DROP TABLE holdfast_turns")
		wantBehind("table holdfast_turns: " + schema)
		for _, s := range sys.stores("") { // the doc comment of Check names this remedy
			must(t, db, s.Schema())
		}
		if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
			t.Error(err)
		}
	})
}

func TestCheckCanceled(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := migrations.Check(ctx, db, sys.dialect)
		if !errors.Is(err, context.Canceled) || errors.Is(err, migrations.ErrBehind) {
			t.Error(err)
		}
	})
}

// A database that cannot store every text gets no tables. The message says what to do.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		db := connect(t, onPostgres, server.Database(encoding))
		for what, err := range map[string]error{
			"Check": migrations.Check(t.Context(), db, migrations.Postgres),
			"Up":    migrations.Up(t.Context(), db, migrations.Postgres),
		} {
			if !errors.Is(err, migrations.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s of %s: %v, want %v", what, encoding, err, migrations.ErrEncoding)
			}
		}
		if tables := column(t, db, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"); len(tables) > 0 {
			t.Errorf("%s: it created %q", encoding, tables)
		}
	}
}
