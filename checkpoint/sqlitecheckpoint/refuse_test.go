package sqlitecheckpoint_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/testenv"
)

const (
	busy = "_pragma=busy_timeout(5000)"
	wal  = "_pragma=journal_mode(WAL)"
	full = "_pragma=synchronous(FULL)"
)

func TestDSN(t *testing.T) {
	for i, c := range []struct{ dsn, fault string }{
		{busy + "&" + wal + "&" + full, ""},
		{busy + "&" + wal + "&_pragma=synchronous(EXTRA)", ""},
		{"_pragma=busy_timeout(1000)&" + wal + "&" + full, ""},
		{busy + "&" + full, "journal_mode is delete"},
		{busy + "&" + full + "&_pragma=journal_mode(MEMORY)", "journal_mode is memory"},
		{busy + "&" + wal + "&_pragma=synchronous(NORMAL)", "synchronous is 1"},
		{busy + "&" + wal + "&_pragma=synchronous(OFF)", "synchronous is 0"},
		{wal + "&" + full, "busy_timeout is 0"},
		{"_pragma=busy_timeout(999)&" + wal + "&" + full, "busy_timeout is 999"},
		{busy + "&_pragma=encoding('UTF-16le')&" + wal + "&" + full, "encoding is UTF-16le"},
		{busy + "&" + wal + "&" + full + "&mode=memory", "journal_mode is memory"},
	} {
		t.Run(fmt.Sprint(i, c.fault), func(t *testing.T) {
			s := create(t, open(t, "file:"+filepath.Join(t.TempDir(), "test.db")+"?"+c.dsn), nil)
			for method, err := range callAll(t.Context(), s) {
				switch {
				case c.fault == "" && err != nil:
					t.Errorf("%s: %v", method, err)
				case c.fault != "" && (!errors.Is(err, sqlitecheckpoint.ErrDSN) ||
					!strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), wal)):
					t.Errorf("%s: %v, want %v with %q and the remedy", method, err, sqlitecheckpoint.ErrDSN, c.fault)
				}
			}
		})
	}
}

func TestDSNInMemory(t *testing.T) {
	db := open(t, ":memory:")
	db.SetMaxOpenConns(1)
	want(t, claim(t, create(t, db, nil)), sqlitecheckpoint.ErrDSN)
}

func TestDSNMended(t *testing.T) {
	db := open(t, "file:"+filepath.Join(t.TempDir(), "test.db")+"?"+busy+"&"+wal+"&_pragma=synchronous(NORMAL)")
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	want(t, claim(t, s), sqlitecheckpoint.ErrDSN)
	mustExec(t, db, "PRAGMA synchronous = FULL")
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

func TestSchemaMissing(t *testing.T) {
	const sessions, turns = "DROP TABLE holdfast_sessions", "DROP TABLE holdfast_turns"
	for _, c := range []struct{ name, spoil, missing, skip string }{
		{"both", sessions + ";" + turns, "table holdfast_sessions", ""},
		{"turns", turns, "table holdfast_turns", "Claim Renew Mark Sessions Delete"},
		{"column", "ALTER TABLE holdfast_turns DROP COLUMN version", "column version of table holdfast_turns", "Claim Renew Mark Sessions Delete"},
		{"column of sessions", "ALTER TABLE holdfast_sessions DROP COLUMN owner", "column owner of table holdfast_sessions", "Renew Mark Sessions Append Turns Sweep"},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(c.name+" "+when+" the first use", func(t *testing.T) {
				db := open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				s := create(t, db, &sqlitecheckpoint.Options{TTL: time.Hour})
				if when == "after" {
					want(t, claim(t, s), nil)
				}
				mustExec(t, db, c.spoil)
				for method, err := range callAll(t.Context(), s) {
					if when == "after" && (strings.Contains(c.skip, method) || method == "Sweep") {
						// The method does not touch what is missing.
						continue
					}
					if !errors.Is(err, checkpoint.ErrSchema) || !strings.Contains(err.Error(), c.missing) ||
						!strings.Contains(err.Error(), "migrations.Up") {
						t.Errorf("%s: %v, want %v naming %s and the remedy",
							method, err, checkpoint.ErrSchema, c.missing)
					}
				}
				mustExec(t, db, "DROP TABLE IF EXISTS holdfast_sessions; DROP TABLE IF EXISTS holdfast_turns;"+s.Schema())
				for method, err := range callAll(t.Context(), s) {
					if err != nil {
						t.Errorf("%s after the remedy: %v", method, err)
					}
				}
			})
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
			db := open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			l := mustClaim(t, s, "a").Lease
			for n := range 2 {
				want(t, s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{}), nil)
			}
			mustExec(t, db, "PRAGMA ignore_check_constraints = on; PRAGMA legacy_alter_table = on")
			for _, statement := range strings.Split(c.spoil, ";") {
				mustExec(t, db, statement)
			}
			_, err := s.Claim(t.Context(), bot("a"), checkpoint.ClaimRequest{Nonce: "n", TTL: time.Hour, From: l.Fence})
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

func TestClosed(t *testing.T) {
	db := open(t, testenv.SQLite(t))
	o := &sqlitecheckpoint.Options{TTL: time.Hour}
	used, unused := create(t, db, o), sqlitecheckpoint.New(db, o)
	want(t, claim(t, used), nil)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sqlitecheckpoint.Store{used, unused} {
		for method, err := range callAll(t.Context(), s) {
			if err == nil || errors.Is(err, checkpoint.ErrSchema) || errors.Is(err, sqlitecheckpoint.ErrDSN) ||
				errors.Is(err, checkpoint.ErrInvalid) {
				t.Errorf("%s on a closed database: %v", method, err)
			}
		}
	}
}

func TestInvalidPrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": true, "a": true, "_": true, "App_2_": true, strings.Repeat("x", 50): true,
		"2a": false, "a.b": false, "a b": false, "é": false, `a"`: false, "a;": false, "a\n": false, "SQLite_": false, strings.Repeat("x", 51): false,
	} {
		func() {
			defer func() {
				if r := recover(); (r == nil) != valid {
					t.Errorf("New with prefix %q panics with %v", prefix, r)
				}
			}()
			sqlitecheckpoint.New(nil, &sqlitecheckpoint.Options{Prefix: prefix})
		}()
	}
}

func TestTwoPrefixes(t *testing.T) {
	db := open(t, testenv.SQLite(t))
	a, b := create(t, db, nil), create(t, db, &sqlitecheckpoint.Options{Prefix: "b_"})
	want(t, claim(t, a), nil)
	want(t, claim(t, b), nil)
}
