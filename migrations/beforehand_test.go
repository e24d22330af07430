package migrations_test

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/migrations"
)

// beforehand returns the statements of docs/operations.md that build the indexes of the migration drain.
func beforehand(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`(?s)CREATE INDEX CONCURRENTLY[^;]*;`).FindAllString(string(page), -1)
	if len(all) != 2 {
		t.Fatalf("the page has %d statements: %q", len(all), all)
	}
	return all
}

// behindWriter returns a database without the migration drain, after the statements have run. A writer has a
// transaction open on one of its tables, and none of our statements waits for it.
func behindWriter(t *testing.T, table string, statements ...string) *sql.DB {
	t.Helper()
	dsn := freshSchema(t)
	db := connect(t, onPostgres, dsn)
	if _, err := provider(t, onPostgres, db, "holdfast_schema_version").UpTo(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		must(t, db, s)
	}
	writer, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := writer.Rollback(); err != nil {
			t.Error(err)
		}
	})
	if _, err := writer.Exec("LOCK TABLE " + table + " IN ROW EXCLUSIVE MODE"); err != nil { // as an INSERT does
		t.Fatal(err)
	}
	return connect(t, onPostgres, with(dsn, "lock_timeout", "100ms"))
}

// upToDrain applies the migration drain. Up goes further, to a migration that needs the table of the effects alone.
func upToDrain(t *testing.T, db *sql.DB, table string) error {
	t.Helper()
	if table == "holdfast_runs" {
		return migrations.Up(t.Context(), db, migrations.Postgres)
	}
	_, err := provider(t, onPostgres, db, "holdfast_schema_version").UpTo(t.Context(), 5)
	return err
}

// If the indexes were built beforehand, as the page says, the migration leaves them, and waits for no writer. Without
// them it waits.
func TestIndexesBuiltBeforehand(t *testing.T) {
	t.Parallel()
	const indexes = `SELECT relname || ' ' || oid FROM pg_class
		WHERE relname IN ('holdfast_runs_drain', 'holdfast_effects_answer')
			AND relnamespace = quote_ident(current_schema())::regnamespace`
	for _, table := range []string{"holdfast_runs", "holdfast_effects"} {
		db := behindWriter(t, table, beforehand(t)...)
		built := column(t, db, indexes)
		if err := upToDrain(t, db, table); err != nil {
			t.Errorf("with an open transaction on %s: %v", table, err)
		}
		wantSame(t, "indexes", column(t, db, indexes), built)
		if len(built) != 2 {
			t.Errorf("built were %q", built)
		}

		err := upToDrain(t, behindWriter(t, table), table)
		if err == nil || !strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("without the indexes, and with an open transaction on %s: %v", table, err)
		}
	}
}

// The indexes that the page builds are those of the migration.
func TestIndexesAreTheSame(t *testing.T) {
	t.Parallel()
	db := connect(t, onPostgres, freshSchema(t))
	up(t, onPostgres, db)
	want := catalog(t, onPostgres, db)
	must(t, db, "DROP INDEX holdfast_runs_drain")
	must(t, db, "DROP INDEX holdfast_effects_answer")
	for _, s := range beforehand(t) {
		must(t, db, s)
	}
	wantSame(t, "indexes", catalog(t, onPostgres, db), want)
}

// A build that has failed leaves an index by that name, which PostgreSQL does not use.
func TestInvalidIndex(t *testing.T) {
	t.Parallel()
	db := connect(t, onPostgres, freshSchema(t))
	up(t, onPostgres, db)
	must(t, db, `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'holdfast_runs_drain'::regclass`)
	const want = "missing a valid index holdfast_runs_drain: drop each invalid index and build it again"
	for what, err := range map[string]error{
		"Up":    migrations.Up(t.Context(), db, migrations.Postgres),
		"Check": migrations.Check(t.Context(), db, migrations.Postgres),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}
