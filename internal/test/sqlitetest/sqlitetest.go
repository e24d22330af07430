// Package sqlitetest has what the tests of the stores on SQLite share: databases, processes that use one file, and the
// tests that each store has to pass, whether it keeps turns or runs.
package sqlitetest

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"
)

// The stores ask for these settings of a data source name.
const (
	Busy = "_pragma=busy_timeout(5000)"
	WAL  = "_pragma=journal_mode(WAL)"
	Full = "_pragma=synchronous(FULL)"
)

// DSN returns the data source name of the file, with what the stores ask for.
func DSN(path string) string { return "file:" + path + "?" + Busy + "&" + WAL + "&" + Full }

// File returns the path of a database that does not exist yet.
func File(tb testing.TB) string { return filepath.Join(tb.TempDir(), "test.db") }

// Open opens a database until the test ends.
func Open(tb testing.TB, dsn string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	return db
}

// Exec executes a statement, or several.
func Exec(tb testing.TB, db *sql.DB, text string, args ...any) {
	tb.Helper()
	if _, err := db.ExecContext(tb.Context(), text, args...); err != nil {
		tb.Fatal(err)
	}
}

// Plan returns the steps in which SQLite would execute a statement of so many arguments, a line each.
func Plan(tb testing.TB, db *sql.DB, statement string, args int) string {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), "EXPLAIN QUERY PLAN "+statement, make([]any, args)...)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			tb.Fatal(err)
		}
		plan.WriteString(step + "\n")
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return plan.String()
}
