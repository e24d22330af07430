package migrations_test

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/migrations"
)

// overlaid returns a database whose tables create has made. Afterwards a schema was added to its search path, before
// the schema of the tables.
func overlaid(t *testing.T, create func(*sql.DB)) (db *sql.DB, tables func() []string) {
	dsn := freshSchema(t)
	create(connect(t, onPostgres, dsn))
	later := connect(t, onPostgres, dsn)
	var schema string
	if err := later.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	name := schema + " too"
	quoted := pgx.Identifier{name}.Sanitize()
	must(t, later, "CREATE SCHEMA "+quoted)
	t.Cleanup(func() {
		if _, err := later.Exec("SET client_min_messages = warning; DROP SCHEMA " + quoted + " CASCADE"); err != nil {
			t.Error(err)
		}
	})
	db = connect(t, onPostgres, with(dsn, "search_path", quoted+", "+pgx.Identifier{schema}.Sanitize()))
	return db, func() []string {
		return column(t, later, "SELECT relname::text FROM pg_class WHERE relnamespace = $1::regnamespace", quoted)
	}
}

// If a schema appears before that of the tables in the search path, it gets no second, empty set of tables.
func TestHidden(t *testing.T) {
	t.Parallel()
	db, tables := overlaid(t, func(db *sql.DB) { up(t, onPostgres, db) })
	if err := migrations.Check(t.Context(), db, migrations.Postgres); err != nil {
		t.Errorf("Check of tables that are there: %v", err)
	}
	if err := migrations.Up(t.Context(), db, migrations.Postgres); err != nil {
		t.Errorf("Up, which has nothing to do: %v", err)
	}
	refused := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "would hide them") {
			t.Errorf("%s: %v, want an error that says what would be hidden", what, err)
		}
	}
	texts := slices.Repeat([]string{"SELECT 1"}, 20) // more than there are migrations
	refused("a migration that is new", migrations.UpTexts(t.Context(), db, migrations.Postgres, texts...))
	for _, s := range onPostgres.stores("") {
		_, err := db.ExecContext(t.Context(), s.Schema())
		refused("Schema", err)
	}
	if names := tables(); len(names) > 0 {
		t.Errorf("%q were created", names)
	}
}

// Up creates no second version table beside tables that a Schema has made.
func TestHiddenSchema(t *testing.T) {
	t.Parallel()
	db, tables := overlaid(t, func(db *sql.DB) {
		for _, s := range onPostgres.stores("") {
			must(t, db, s.Schema())
		}
	})
	err := migrations.Up(t.Context(), db, migrations.Postgres)
	if err == nil || !strings.Contains(err.Error(), "would hide them") {
		t.Errorf("Up: %v", err)
	}
	if names := tables(); len(names) > 0 {
		t.Errorf("%q were created", names)
	}
}
