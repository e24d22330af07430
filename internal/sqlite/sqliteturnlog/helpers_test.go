package sqliteturnlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
)

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func entry(run, phase string, ms int) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Turn: 3, Orchestrator: "bot", Session: "session", Phase: phase, State: json.RawMessage(`{"n":1}`), At: at(ms),
	}
}

func record(t *testing.T, l turnlog.Log, all ...turnlog.Entry) {
	t.Helper()
	for _, e := range all {
		if err := l.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the runs that a query selects, and those of them that are damaged.
func list(t *testing.T, l turnlog.Lister, q turnlog.Query) (runs, damaged []string) {
	t.Helper()
	for s, err := range l.Turns(t.Context(), q) {
		if d, is := errors.AsType[*turnlog.DamagedError](err); is {
			damaged = append(damaged, d.ID)
		} else if err != nil {
			t.Errorf("%+v: %v", q, err)
		}
		runs = append(runs, s.First.Run)
	}
	return runs, damaged
}

func readAll(ctx context.Context, l turnlog.Lister) error {
	for _, err := range l.Turns(ctx, turnlog.Query{}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

var calls atomic.Int64

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, l *sqliteturnlog.Log) map[string]error {
	errs := make(map[string]error)
	errs["Record"] = l.Record(ctx, entry("all", turnlog.ToolReceived, int(calls.Add(1))))
	_, errs["Restore"] = l.Restore(ctx, "all")
	errs["Turns"] = readAll(ctx, l)
	_, errs["Prune"] = l.Prune(ctx, at(0))
	return errs
}

func newLog(tb testing.TB, o *sqliteturnlog.Options) *sqliteturnlog.Log {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqliteturnlog.Options) *sqliteturnlog.Log {
	tb.Helper()
	l := sqliteturnlog.New(db, o)
	sqlitetest.Exec(tb, db, l.Schema())
	sqlitetest.Exec(tb, db, l.Schema())
	return l
}
