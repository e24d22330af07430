package sqlitetest

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Kind is a kind of store on SQLite. Its methods are tests that do not depend on what the store keeps.
type Kind[S interface{ Schema() string }] struct {
	New func(db *sql.DB, prefix string) S
	// CallAll calls every method once and returns their errors by name.
	CallAll func(ctx context.Context, s S) map[string]error

	// Longest is the longest end of a name in the database; "" if it has 13 bytes.
	Longest string

	// These are the errors of the store's package and of its contract.
	DSN, Schema, Damaged, Refused error
	// OneDamaged reports whether an error says that one session is damaged, and not the whole store. It may be nil.
	OneDamaged func(error) bool
	// Verdicts are errors that a store returns only if it has read the database.
	Verdicts []error
}

// Create creates the tables, twice, and returns a store on them.
func (k Kind[S]) Create(tb testing.TB, db *sql.DB) S {
	tb.Helper()
	s := k.New(db, "")
	Exec(tb, db, s.Schema())
	Exec(tb, db, s.Schema())
	return s
}

// wantAll shows that every method succeeds.
func (k Kind[S]) wantAll(t *testing.T, when string, s S) {
	t.Helper()
	for method, err := range k.CallAll(t.Context(), s) {
		if err != nil {
			t.Errorf("%s %s: %v", method, when, err)
		}
	}
}

// TestDSN shows that a store refuses a database that would lose data or fail where it should wait.
func (k Kind[S]) TestDSN(t *testing.T) {
	for i, c := range []struct{ dsn, fault string }{
		{Busy + "&" + WAL + "&" + Full, ""},
		{Busy + "&" + WAL + "&_pragma=synchronous(EXTRA)", ""},
		{"_pragma=busy_timeout(1000)&" + WAL + "&" + Full, ""},
		{Busy + "&" + Full, "journal_mode is delete"},
		{Busy + "&" + Full + "&_pragma=journal_mode(MEMORY)", "journal_mode is memory"},
		{Busy + "&" + WAL + "&_pragma=synchronous(NORMAL)", "synchronous is 1"},
		{Busy + "&" + WAL + "&_pragma=synchronous(OFF)", "synchronous is 0"},
		{WAL + "&" + Full, "busy_timeout is 0"},
		{"_pragma=busy_timeout(999)&" + WAL + "&" + Full, "busy_timeout is 999"},
		{Busy + "&_pragma=encoding('UTF-16le')&" + WAL + "&" + Full, "encoding is UTF-16le"},
		{Busy + "&" + WAL + "&" + Full + "&mode=memory", "journal_mode is memory"},
	} {
		t.Run(fmt.Sprint(i, c.fault), func(t *testing.T) {
			path := File(t)
			s := k.Create(t, Open(t, "file:"+path+"?"+c.dsn))
			for method, err := range k.CallAll(t.Context(), s) {
				switch {
				case c.fault == "" && err != nil:
					t.Errorf("%s: %v", method, err)
				case c.fault != "" && (!errors.Is(err, k.DSN) || !strings.Contains(err.Error(), c.fault) ||
					!strings.Contains(err.Error(), WAL)):
					t.Errorf("%s: %v, want %v with %q and the remedy", method, err, k.DSN, c.fault)
				case c.fault != "" && !strings.Contains(c.dsn, "mode=memory") && !strings.Contains(err.Error(), path):
					t.Errorf("%s: %v, want the path %s", method, err, path)
				}
			}
		})
	}
}

// A Missing is a statement that takes something away, and what the store then says is missing.
type Missing struct {
	Name, Spoil, Says string
	// Untouched names the methods of a store in use that do not need what is missing.
	Untouched string
}

// TestSchemaMissing shows that the error says what is missing, and that the remedy helps.
func (k Kind[S]) TestSchemaMissing(t *testing.T, drop string, cases []Missing) {
	for _, c := range cases {
		for _, when := range []string{"before", "after"} {
			t.Run(c.Name+" "+when+" the first use", func(t *testing.T) {
				db := Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				s := k.Create(t, db)
				if when == "after" {
					k.wantAll(t, "at first", s)
				}
				Exec(t, db, c.Spoil)
				for method, err := range k.CallAll(t.Context(), s) {
					if when == "after" && strings.Contains(c.Untouched, method) {
						continue
					}
					if !errors.Is(err, k.Schema) || !strings.Contains(err.Error(), c.Says) ||
						!strings.Contains(err.Error(), "migrations.Up") {
						t.Errorf("%s: %v, want %v naming %s and the remedy", method, err, k.Schema, c.Says)
					}
				}
				Exec(t, db, drop)
				Exec(t, db, s.Schema())
				k.wantAll(t, "after the remedy", s)
			})
		}
	}
}

// TestClosed shows that a closed database is not taken for one without tables.
func (k Kind[S]) TestClosed(t *testing.T) {
	db := Open(t, testenv.SQLite(t))
	used, unused := k.Create(t, db), k.New(db, "")
	k.wantAll(t, "at first", used)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []S{used, unused} {
		for method, err := range k.CallAll(t.Context(), s) {
			wrong := err == nil || errors.Is(err, k.Schema) || errors.Is(err, k.DSN)
			for _, verdict := range k.Verdicts {
				wrong = wrong || errors.Is(err, verdict)
			}
			if wrong {
				t.Errorf("%s on a closed database: %v", method, err)
			}
		}
	}
}

// TestPrefix shows that New panics if the prefix is not an identifier that leaves room for the names of tables.
func (k Kind[S]) TestPrefix(t *testing.T) {
	room := 63 - len(cmp.Or(k.Longest, "runs_inflight"))
	for prefix, valid := range map[string]bool{
		"": true, "a": true, "_": true, "App_2_": true, strings.Repeat("x", room): true,
		"2a": false, "a.b": false, "a b": false, "é": false, `a"`: false, "a;": false, "a\n": false, "SQLite_": false,
		strings.Repeat("x", room+1): false,
	} {
		func() {
			defer func() {
				if r := recover(); (r == nil) != valid {
					t.Errorf("New with prefix %q panics with %v", prefix, r)
				}
			}()
			k.New(nil, prefix)
		}()
	}
}

// TestTwoPrefixes shows that two stores share a database.
func (k Kind[S]) TestTwoPrefixes(t *testing.T) {
	db := Open(t, testenv.SQLite(t))
	a, b := k.New(db, ""), k.New(db, "b_")
	Exec(t, db, a.Schema())
	Exec(t, db, b.Schema())
	k.wantAll(t, "of the first", a)
	k.wantAll(t, "of the second", b)
}

// TestNoGoroutineLeft shows that a store leaves neither goroutines nor connections in use.
func (k Kind[S]) TestNoGoroutineLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	db := Open(t, testenv.SQLite(t))
	s := k.Create(t, db)
	k.wantAll(t, "at first", s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.CallAll(ctx, s)
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, append(testenv.Leaks(), before)...)
}
