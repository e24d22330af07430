package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestDSNInMemory(t *testing.T) {
	db := sqlitetest.Open(t, ":memory:")
	db.SetMaxOpenConns(1)
	want(t, claim(t, create(t, db, nil)), sqlitecheckpoint.ErrDSN)
}

func TestDSNMended(t *testing.T) {
	settings := sqlitetest.Busy + "&" + sqlitetest.WAL + "&_pragma=synchronous(NORMAL)"
	db := sqlitetest.Open(t, "file:"+sqlitetest.File(t)+"?"+settings)
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	want(t, claim(t, s), sqlitecheckpoint.ErrDSN)
	sqlitetest.Exec(t, db, "PRAGMA synchronous = FULL")
	want(t, claim(t, s), nil)
}

func TestNotSQLite(t *testing.T) {
	want(t, claim(t, sqlitecheckpoint.New(sql.OpenDB(other{}), nil)), sqlitecheckpoint.ErrDSN)
}

// other is a database that understands SELECT 1 and nothing else.
type other struct{}

var errSyntax = errors.New("syntax error")

func (other) Connect(context.Context) (driver.Conn, error) { return other{}, nil }
func (other) Driver() driver.Driver                        { return nil }
func (other) Begin() (driver.Tx, error)                    { return nil, errSyntax }
func (other) Close() error                                 { return nil }
func (other) NumInput() int                                { return 0 }
func (other) Exec([]driver.Value) (driver.Result, error)   { return nil, errSyntax }
func (other) Query([]driver.Value) (driver.Rows, error)    { return new(ones), nil }

func (other) Prepare(query string) (driver.Stmt, error) {
	if query != "SELECT 1" {
		return nil, errSyntax
	}
	return other{}, nil
}

type ones struct{ read bool }

func (*ones) Columns() []string { return []string{"1"} }
func (*ones) Close() error      { return nil }

func (r *ones) Next(row []driver.Value) error {
	if r.read {
		return io.EOF
	}
	row[0], r.read = int64(1), true
	return nil
}

func TestSchema(t *testing.T) {
	s := newStore(t, nil)
	if strings.Contains(strings.ToUpper(s.Schema()), "TRIGGER") {
		t.Error("Schema creates a trigger")
	}
	for _, statement := range strings.SplitAfter(s.Schema(), ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" && !strings.HasSuffix(statement, ";") {
			t.Errorf("%q does not end by itself", statement)
		}
	}
}

// If no store wrote a row, the row is refused, not repaired.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ spoil, says string }{
		{`UPDATE holdfast_turns SET state = '{' WHERE turn = 1`, "state"},
		{`UPDATE holdfast_turns SET state = '"\u0000"' WHERE turn = 1`, "state"},
		{`UPDATE holdfast_turns SET payload = 'x' WHERE turn = 1`, "payload"},
		{`UPDATE holdfast_turns SET route = '{}' WHERE turn = 1`, "route"},
		{`UPDATE holdfast_turns SET run_id = '' WHERE turn = 1`, "run id"},
		{`UPDATE holdfast_turns SET signature = CAST(x'ff' AS TEXT) WHERE turn = 1`, "signature"},
		{`DELETE FROM holdfast_turns WHERE turn = 0; UPDATE holdfast_turns SET turn = -1`, "turn -1"},
		{`DELETE FROM holdfast_turns`, "turn 1"},
		{`DELETE FROM holdfast_turns WHERE turn = 1`, "turn 1"},
		{`UPDATE holdfast_sessions SET summarized = 9`, "summarized 9"},
		{`UPDATE holdfast_sessions SET owed = 9`, "delivered 9"},
		{`UPDATE holdfast_sessions SET turn = -2`, "turn -2"},
		{`UPDATE holdfast_sessions SET born = 0`, "born 0"},
		{`UPDATE holdfast_sessions SET failed = -1`, "failed -1"},
		{loosely("turns", "saved_at") + `UPDATE holdfast_turns SET saved_at = 'yesterday'`, "saved_at"},
		{loosely("sessions", "turn") + `UPDATE holdfast_sessions SET turn = 'two'`, "turn"},
	} {
		t.Run(c.spoil, func(t *testing.T) {
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			l := mustClaim(t, s, "a").Lease
			for n := range 2 {
				want(t, s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{}), nil)
			}
			sqlitetest.Exec(t, db, "PRAGMA ignore_check_constraints = on; PRAGMA legacy_alter_table = on")
			for _, statement := range strings.Split(c.spoil, ";") {
				sqlitetest.Exec(t, db, statement)
			}
			_, err := s.Head(t.Context(), bot("a"))
			if strings.Contains(c.spoil, "UPDATE holdfast_sessions") {
				want(t, err, checkpoint.ErrDamaged)
			} else {
				want(t, err, nil) // it reads no turn
			}
			_, err = s.Claim(t.Context(), bot("a"), checkpoint.ClaimRequest{Nonce: "n", TTL: time.Hour, From: l.Fence})
			want(t, err, checkpoint.ErrDamaged)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
}

// loosely makes a table that takes any value in a column.
func loosely(table, column string) string {
	key := map[string]string{"turns": "orchestrator, session, turn", "sessions": "orchestrator, session"}[table]
	return "ALTER TABLE holdfast_" + table + " RENAME TO strict; " +
		"CREATE TABLE holdfast_" + table + " AS SELECT * FROM strict; " +
		"CREATE UNIQUE INDEX loose_" + column + " ON holdfast_" + table + " (" + key + ");"
}
