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
		missing := ""
		for _, drop := range []struct{ text, missing string }{
			{"ALTER TABLE holdfast_turns DROP COLUMN payload", "column holdfast_turns.payload"},
			{"DROP INDEX holdfast_turns_request", "index holdfast_turns_request"},
		} {
			must(t, db, drop.text)
			missing += ", " + drop.missing
			err := migrations.Check(t.Context(), db, sys.dialect)
			if want := "migrations: the schema is behind: missing " + missing[2:]; err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", drop.text, err, want)
			}
		}
		must(t, db, "DROP TABLE holdfast_turns")
		err := migrations.Check(t.Context(), db, sys.dialect)
		if want := "migrations: the schema is behind: missing table holdfast_turns"; err == nil ||
			err.Error() != want || !errors.Is(err, migrations.ErrBehind) {
			t.Errorf("%v, want %s", err, want)
		}
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
		db := connect(t, postgres, server.Database(encoding))
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
