package sqlitetest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"modernc.org/sqlite"
)

// Failing is in the error of a statement that Fail has made fail.
const Failing = "it fails"

// Fail makes statements fail until Mend. event is that of a trigger, with its WHEN if it has
// one: "UPDATE OF nonce ON holdfast_sessions".
func Fail(tb testing.TB, db *sql.DB, event string) {
	tb.Helper()
	Exec(tb, db, "CREATE TRIGGER failing BEFORE "+event+" BEGIN SELECT RAISE(ABORT, '"+Failing+"'); END")
}

// Mend ends what Fail has begun.
func Mend(tb testing.TB, db *sql.DB) {
	tb.Helper()
	Exec(tb, db, "DROP TRIGGER failing")
}

// Contents returns all rows of tables, a line each.
func Contents(tb testing.TB, db *sql.DB, tables ...string) string {
	tb.Helper()
	var b strings.Builder
	for _, table := range tables {
		for _, row := range rowsOf(tb, db, table) {
			fmt.Fprintln(&b, append([]any{table}, row...)...)
		}
	}
	return b.String()
}

func rowsOf(tb testing.TB, db *sql.DB, table string) (all [][]any) {
	tb.Helper()
	rows, err := db.QueryContext(tb.Context(), "SELECT * FROM "+table)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		tb.Fatal(err)
	}
	for rows.Next() {
		row, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			tb.Fatal(err)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return all
}

// RegisterRemoving lets RemoveAmid work, for databases that are opened later. TestMain calls it.
func RegisterRemoving() {
	sqlite.MustRegisterScalarFunction("remove_database", 1, removeDatabase)
}

// removeDatabase is the function remove_database(path) of SQL.
func removeDatabase(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	path, _ := args[0].(string)
	return nil, errors.Join(os.Remove(path), os.Remove(path+"-wal"), os.Remove(path+"-shm"))
}

// RemoveAmid removes the file of a database in the middle of the next statement of this event, which Fail describes.
func RemoveAmid(tb testing.TB, db *sql.DB, path, event string) {
	tb.Helper()
	Exec(tb, db, "CREATE TRIGGER removing BEFORE "+event+" BEGIN SELECT remove_database('"+path+"'); END")
}

// FailsWhole checks a call one of whose statements fails. The call fails and changes nothing in the tables. The same
// call succeeds later, and changes something.
func FailsWhole(t *testing.T, db *sql.DB, event string, call func(context.Context) error, tables ...string) {
	t.Helper()
	before := Contents(t, db, tables...)
	Fail(t, db, event)
	if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), Failing) {
		t.Errorf("got %v", err)
	}
	if after := Contents(t, db, tables...); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	Mend(t, db)
	if err := call(t.Context()); err != nil {
		t.Error(err)
	}
	if Contents(t, db, tables...) == before {
		t.Error("the second call changes nothing")
	}
}

// A Kind tells the errors of the stores of one contract.
type Kind[S any] struct {
	Damaged error
	// OneDamaged reports whether an error says that one session is damaged, and not the whole store.
	OneDamaged func(error) bool
}

// TestGoneAmid removes the file in the middle of the call that prepare returns. What the call wrote is gone, and the
// call says so. That concerns all sessions, so the error does not say that one is damaged.
func (k Kind[S]) TestGoneAmid(t *testing.T, event string, prepare func(context.Context, *sql.DB) (call func() error)) {
	t.Helper()
	path := File(t)
	db := Open(t, DSN(path))
	call := prepare(t.Context(), db)
	RemoveAmid(t, db, path, event)
	err := call()
	if !errors.Is(err, k.Damaged) || k.OneDamaged(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want an error that names the file and no session", err)
	}
}
