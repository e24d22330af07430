package sqlitetest

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// Failing is in the error of a statement that Fail has made fail.
const Failing = "it fails"

// Fail makes statements fail until Mend. event is that of a trigger: "UPDATE OF nonce ON holdfast_sessions".
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
		rows, err := db.QueryContext(tb.Context(), "SELECT * FROM "+table)
		if err != nil {
			tb.Fatal(err)
		}
		columns, err := rows.Columns()
		row := make([]any, len(columns))
		for i := range row {
			row[i] = new(any)
		}
		for err == nil && rows.Next() {
			if err = rows.Scan(row...); err != nil {
				break
			}
			b.WriteString(table)
			for _, v := range row {
				fmt.Fprintf(&b, " %v", *v.(*any))
			}
			b.WriteByte('\n')
		}
		if err := errors.Join(err, rows.Err(), rows.Close()); err != nil {
			tb.Fatal(err)
		}
	}
	return b.String()
}
