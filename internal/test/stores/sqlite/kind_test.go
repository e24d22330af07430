package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/store"
)

const (
	busy = sqlitetest.Busy
	wal  = sqlitetest.WAL
	full = sqlitetest.Full
)

// A store refuses a database that would lose data or fail where it should wait.
func TestDSN(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
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
				path := sqlitetest.File(t)
				s := k.create(t, sqlitetest.Open(t, "file:"+path+"?"+c.dsn), options{})
				for method, err := range s.all(t.Context()) {
					says := func(text string) bool { return err != nil && strings.Contains(err.Error(), text) }
					switch {
					case c.fault == "" && err != nil:
						t.Errorf("%s: %v", method, err)
					case c.fault != "" && (!errors.Is(err, sqlitestore.ErrDSN) || !says(c.fault) || !says(wal)):
						t.Errorf("%s: %v, want %v with %q and the remedy", method, err, sqlitestore.ErrDSN, c.fault)
					case c.fault != "" && !strings.Contains(c.dsn, "mode=memory") && !says(path):
						t.Errorf("%s: %v, want the path %s", method, err, path)
					}
				}
			})
		}
	})
}

// The error says what is missing, and the remedy helps.
func TestSchemaMissing(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		for _, c := range k.missing {
			for _, when := range []string{"before", "after"} {
				t.Run(c.name+" "+when+" the first use", func(t *testing.T) {
					s, db := k.onOne(t, options{})
					if when == "after" {
						wantAll(t, "at first", s)
					}
					sqlitetest.Exec(t, db, c.spoil)
					for method, err := range s.all(t.Context()) {
						if when == "after" && strings.Contains(c.untouched, method) {
							continue
						}
						if !errors.Is(err, store.ErrSchema) || !strings.Contains(err.Error(), c.says) ||
							!strings.Contains(err.Error(), "Up of the database") {
							t.Errorf("%s: %v, want %v naming %s and the remedy", method, err, store.ErrSchema, c.says)
						}
					}
					sqlitetest.Exec(t, db, "DROP TABLE IF EXISTS "+strings.Join(k.tables, "; DROP TABLE IF EXISTS "))
					sqlitetest.Exec(t, db, s.Schema())
					wantAll(t, "after the remedy", s)
				})
			}
		}
	})
}

// A closed database is not taken for one without tables.
func TestClosed(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		used, unused := k.create(t, db, options{}), k.open(db, options{})
		wantAll(t, "at first", used)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, s := range []subject{used, unused} {
			for method, err := range s.all(t.Context()) {
				wrong := err == nil || errors.Is(err, store.ErrSchema) || errors.Is(err, sqlitestore.ErrDSN)
				for _, verdict := range k.verdicts {
					wrong = wrong || errors.Is(err, verdict)
				}
				if wrong {
					t.Errorf("%s on a closed database: %v", method, err)
				}
			}
		}
	})
}

// A database that cannot be opened takes no call.
func TestUnreachable(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		dsn := sqlitetest.DSN(filepath.Join(t.TempDir(), "missing", "test.db"))
		if k.unreachable != nil {
			k.unreachable(t, k.open(sqlitetest.Open(t, dsn), options{}))
		}
	})
}

// New panics if the prefix is not an identifier that leaves room for the names of tables.
func TestPrefix(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		room := 63 - len(k.longest)
		for prefix, valid := range map[string]bool{
			"": true, "a": true, "_": true, "App_2_": true, strings.Repeat("x", room): true,
			"2a": false, "a.b": false, "a b": false, "é": false, `a"`: false, "a;": false, "a\n": false,
			"SQLite_": false, strings.Repeat("x", room+1): false,
		} {
			func() {
				defer func() {
					if r := recover(); (r == nil) != valid {
						t.Errorf("New with prefix %q panics with %v", prefix, r)
					}
				}()
				k.open(nil, options{prefix: prefix})
			}()
		}
	})
}

// Two stores share a database.
func TestTwoPrefixes(t *testing.T) {
	eachContract(t, func(t *testing.T, k contract) {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		a, b := k.open(db, options{}), k.open(db, options{prefix: "b_"})
		sqlitetest.Exec(t, db, a.Schema())
		sqlitetest.Exec(t, db, b.Schema())
		wantAll(t, "of the first", a)
		wantAll(t, "of the second", b)
	})
}

// A store leaves neither goroutines nor connections in use.
func TestNoGoroutineLeft(t *testing.T) {
	for _, k := range contracts {
		t.Run(k.name, func(t *testing.T) { // one at a time
			before := goleak.IgnoreCurrent()
			db := sqlitetest.Open(t, testenv.SQLite(t))
			s := k.create(t, db, options{})
			wantAll(t, "at first", s)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			s.all(ctx)
			if n := db.Stats().InUse; n != 0 {
				t.Errorf("%d connections are in use", n)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			leaktest.None(t, append(testenv.Leaks(), before)...)
		})
	}
}
