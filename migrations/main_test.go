package migrations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/postgres/pgtranscript"
	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitetranscript"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
)

// childEnv names a SQLite database. If it is set, this binary migrates that database instead of testing.
const childEnv = "HOLDFAST_MIGRATIONS_CHILD"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(childEnv); dsn != "" {
		os.Exit(child(dsn))
	}
	testenv.Main(m)
}

// child waits for the end of its input, so that all children begin at once.
func child(dsn string) int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	err := atOnce(onSQLite, dsn, 5, func(db *sql.DB) error {
		return migrations.UpTexts(context.Background(), db, migrations.SQLite, witnesses...)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A system is a dialect, with the means of the tests to use it.
type system struct {
	dialect migrations.Dialect
	driver  string
	goose   database.Dialect
	// fresh returns the DSN of an empty database or schema.
	fresh  func(t *testing.T) (dsn string)
	stores func(prefix string) []migrations.Schemer
}

var (
	onPostgres = system{
		migrations.Postgres, "pgx", goose.DialectPostgres, freshSchema,
		func(prefix string) []migrations.Schemer {
			return []migrations.Schemer{
				pgcheckpoint.New(nil, &pgcheckpoint.Options{Prefix: prefix}),
				pgsnapshot.New(nil, &pgsnapshot.Options{Prefix: prefix}),
				pglocker.New(nil, &pglocker.Options{Prefix: prefix}),
				pgledger.New(nil, &pgledger.Options{Prefix: prefix}),
				pgturnlog.New(nil, &pgturnlog.Options{Prefix: prefix}),
				pgstream.New(nil, &pgstream.Options{Prefix: prefix}),
				pginbox.New(nil, &pginbox.Options{Prefix: prefix}),
				pgworkflow.New(nil, &pgworkflow.Options{Prefix: prefix}),
				pgtranscript.New(nil, &pgtranscript.Options{Prefix: prefix}),
			}
		},
	}
	onSQLite = system{
		migrations.SQLite, "sqlite", goose.DialectSQLite3, freshFile,
		func(prefix string) []migrations.Schemer {
			return []migrations.Schemer{
				sqlitecheckpoint.New(nil, &sqlitecheckpoint.Options{Prefix: prefix}),
				sqlitesnapshot.New(nil, &sqlitesnapshot.Options{Prefix: prefix}),
				sqliteledger.New(nil, &sqliteledger.Options{Prefix: prefix}),
				sqliteturnlog.New(nil, &sqliteturnlog.Options{Prefix: prefix}),
				sqlitestream.New(nil, &sqlitestream.Options{Prefix: prefix}),
				sqliteinbox.New(nil, &sqliteinbox.Options{Prefix: prefix}),
				sqlitetranscript.New(nil, &sqlitetranscript.Options{Prefix: prefix}),
				sqliteworkflow.New(nil, &sqliteworkflow.Options{Prefix: prefix}),
			}
		},
	}
)

// onEach runs a test on both dialects.
func onEach(t *testing.T, test func(t *testing.T, sys system)) {
	t.Parallel()
	for _, sys := range []system{onPostgres, onSQLite} {
		t.Run(string(sys.dialect), func(t *testing.T) {
			t.Parallel()
			test(t, sys)
		})
	}
}

func freshFile(t *testing.T) string { return testenv.SQLite(t) }

// freshSchema does not use the schema that testenv has made, which may have tables already. It makes a schema whose
// name needs quotes.
func freshSchema(t *testing.T) string {
	u, err := url.Parse(testenv.PostgresURL(t))
	if err != nil {
		t.Fatal(err)
	}
	schema := pgx.Identifier{"Test " + strings.ToLower(rand.Text()[:16])}.Sanitize()
	db := connect(t, system{driver: "pgx"}, u.String())
	must(t, db, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		drop := "SET client_min_messages = warning; SET lock_timeout = '10s'; DROP SCHEMA " + schema + " CASCADE"
		if _, err := db.Exec(drop); err != nil {
			t.Error(err)
		}
	})
	return with(u.String(), "search_path", schema)
}

// with sets a parameter of a PostgreSQL URL.
func with(dsn, name, value string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		panic(err)
	}
	q := u.Query()
	q.Set(name, value)
	// Like libpq, pgx takes a + for itself.
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20")
	return u.String()
}

func connect(t *testing.T, sys system, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(sys.driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func up(t *testing.T, sys system, db *sql.DB) {
	t.Helper()
	if err := migrations.Up(t.Context(), db, sys.dialect); err != nil {
		t.Fatal(err)
	}
}

// witnesses are migrations that show how often they were applied.
var witnesses = []string{
	"CREATE TABLE IF NOT EXISTS holdfast_witness (n integer); INSERT INTO holdfast_witness VALUES (1)",
	"INSERT INTO holdfast_witness VALUES (2)",
	"INSERT INTO holdfast_witness SELECT 3 FROM holdfast_witness WHERE n = 2",
}

func upAtOnce(ctx context.Context, sys system, dsn string, n int) error {
	return atOnce(sys, dsn, n, func(db *sql.DB) error { return migrations.Up(ctx, db, sys.dialect) })
}

// atOnce calls f n times at once, each time with its own pool. It returns the first error.
func atOnce(sys system, dsn string, n int, f func(*sql.DB) error) error {
	start, errs := make(chan struct{}), make(chan error)
	for range n {
		go func() {
			<-start
			db, err := sql.Open(sys.driver, dsn)
			if err == nil {
				defer db.Close()
				err = f(db)
			}
			errs <- err
		}()
	}
	close(start)
	var first error
	for range n {
		if err := <-errs; first == nil {
			first = err
		}
	}
	return first
}

func must(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text, args...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// column returns the values of a query of one column.
func column(t *testing.T, db *sql.DB, text string, args ...any) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var v string
		if err := rows.Scan(&v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		values = append(values, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return values
}
