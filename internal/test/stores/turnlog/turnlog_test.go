// Package turnlog_test runs the cases of a turn log over all databases. What one database alone has is in a test with
// its name.
package turnlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases hold turn logs. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) turnlog.Lister
}{
	{"memory", func(*testing.T) turnlog.Lister { return new(turnlog.Memory) }},
	{"postgres", onPostgres.Open},
	{"sqlite", func(t *testing.T) turnlog.Lister { return onSQLite(t, sqlitetest.Open(t, testenv.SQLite(t)), "") }},
}

func each(t *testing.T, test func(t *testing.T, open func(t *testing.T) turnlog.Lister)) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.open)
		})
	}
}

var onPostgres = pgtest.Kind[turnlog.Lister]{
	New: func(db pgtest.DB, prefix string) turnlog.Lister {
		return pgturnlog.New(db, &pgturnlog.Options{Prefix: prefix})
	},
	Suite: suite, Violations: violations,
	Fill: func(t *testing.T, l turnlog.Lister) {
		record(t, l, entry("run", turnlog.Started, 0), entry("run", turnlog.Settled, 1))
	},
	Read: func(t *testing.T, l turnlog.Lister) string {
		all, err := l.Restore(t.Context(), "run")
		return fmt.Sprint(runs(t, l, turnlog.Query{}), all, err)
	},
	Calls: calls, Writes: []string{"Record", "Record again", "Prune"},
	Tables: []string{"phases", "logged"}, Schema: turnlog.ErrSchema, Refused: turnlog.ErrRefused,
}

func suite(t *testing.T, open func(t *testing.T) turnlog.Lister) {
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log { return open(t) })
}

func violations(ctx context.Context, open func() turnlog.Lister, names ...string) map[string]error {
	return turnlogtest.Violations(ctx, func() turnlog.Log { return open() }, names...)
}

func onSQLite(tb testing.TB, db *sql.DB, prefix string) turnlog.Lister {
	tb.Helper()
	l := sqliteturnlog.New(db, &sqliteturnlog.Options{Prefix: prefix})
	sqlitetest.Exec(tb, db, l.Schema())
	return l
}

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func entry(run, phase string, ms int) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Turn: 3, Orchestrator: "bot", Session: "session", Phase: phase, State: json.RawMessage(`{"n":1}`), At: at(ms),
	}
}

func record(t *testing.T, l turnlog.Lister, all ...turnlog.Entry) {
	t.Helper()
	for _, e := range all {
		check(t, l.Record(t.Context(), e))
	}
}

// prune forgets what settled before ms.
func prune(ctx context.Context, l turnlog.Lister, ms int) (int, error) { return l.Prune(ctx, at(ms)) }

// list returns the runs that a query selects, and those of them that are damaged.
func list(ctx context.Context, l turnlog.Lister, q turnlog.Query) (runs, damaged []string, err error) {
	for s, err := range l.Turns(ctx, q) {
		if d, is := errors.AsType[*turnlog.DamagedError](err); is {
			damaged = append(damaged, d.ID)
		} else if err != nil {
			return runs, damaged, err
		}
		runs = append(runs, s.First.Run)
	}
	return runs, damaged, nil
}

// runs returns the runs that a query selects. None is damaged.
func runs(t *testing.T, l turnlog.Lister, q turnlog.Query) []string {
	t.Helper()
	all, damaged, err := list(t.Context(), l, q)
	if check(t, err); len(damaged) > 0 {
		t.Fatalf("damaged are %q", damaged)
	}
	return all
}

// calls calls every method and returns the errors by name.
func calls(ctx context.Context, l turnlog.Lister) map[string]error {
	recorded := l.Record(ctx, entry("run", turnlog.Started, 0))
	_, restored := l.Restore(ctx, "run")
	_, _, listed := list(ctx, l, turnlog.Query{})
	settled := entry("run", turnlog.Settled, 1)
	again := errors.Join(l.Record(ctx, settled), l.Record(ctx, settled))
	_, pruned := prune(ctx, l, 5000)
	return map[string]error{
		"Record": recorded, "Record again": again, "Restore": restored, "Turns": listed, "Prune": pruned,
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLog(t *testing.T) { each(t, suite) }

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) turnlog.Lister) {
		faulttest.TurnLogModel(t, open)
		faulttest.TurnLogHistories(t, open, faulttest.Histories())
	})
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	suite(t, func(t *testing.T) turnlog.Lister {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, "_My1")
	})
}

func TestIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestStoreBehind(t *testing.T) { onPostgres.TestBehind(t) }

func TestStorePgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

func TestStoreQualified(t *testing.T) { onPostgres.TestQualified(t) }

func TestGrantsSuffice(t *testing.T) { onPostgres.TestGrantsSuffice(t) }

func TestGrantsNeedAll(t *testing.T) { onPostgres.TestGrantsNeedAll(t) }

func TestPostgresPrefix(t *testing.T) { onPostgres.TestPrefix(t) }

func TestPostgresEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestPostgresSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestPostgresSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestPostgresUnreachable(t *testing.T) {
	onPostgres.TestUnreachable(t, turnlogtest.RunUnreachable)
}
