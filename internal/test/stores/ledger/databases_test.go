// Package ledger_test runs the cases of a ledger over all databases. What one database alone has says so in its name.
package ledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases hold ledgers. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) ledger.Ledger
}{
	{"memory", func(*testing.T) ledger.Ledger { return new(ledger.Memory) }},
	{"postgres", onPostgres.Open},
	{"sqlite", func(t *testing.T) ledger.Ledger { return onFile(t, sqlitetest.Open(t, testenv.SQLite(t)), nil) }},
}

func each(t *testing.T, test func(t *testing.T, open func(t *testing.T) ledger.Ledger)) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.open)
		})
	}
}

var onPostgres = pgtest.Kind[ledger.Ledger]{
	New: func(db pgtest.DB, prefix string) ledger.Ledger {
		return pgledger.New(db, &pgledger.Options{Prefix: prefix})
	},
	Suite: ledgertest.Run, Violations: ledgertest.Violations,
	Fill: func(t *testing.T, l ledger.Ledger) { issue(t, l, effect("filled", "filled", 1)) },
	Read: func(t *testing.T, l ledger.Ledger) string {
		ids, _ := list(t, l, ledger.Query{})
		return fmt.Sprint(ids)
	},
	Calls: calls, Writes: []string{"Issue", "Record", "Finish", "Adopt", "Prune"},
	Tables: []string{"effects", "effect_fences"}, Schema: ledger.ErrSchema, Refused: ledger.ErrRefused,
}

// calls calls every method, and returns the errors by name.
func calls(ctx context.Context, l ledger.Ledger) map[string]error {
	errs := make(map[string]error)
	e := effect("run", "a", 1)
	e.Class = ledger.Pure
	_, _, errs["Issue"] = l.Issue(ctx, e, false)
	_, errs["Record"] = l.Record(ctx, e)
	_, errs["Finish"] = l.Finish(ctx, "a", 1, paid)
	errs["Adopt"] = l.Adopt(ctx, "run", fence(1))
	_, errs["Prune"] = l.Prune(ctx, time.Now())
	errs["Effects"] = nil
	for _, err := range l.Effects(ctx, ledger.Query{}) {
		errs["Effects"] = err
	}
	return errs
}

// onPool returns a ledger on a pool, with new tables.
func onPool(t *testing.T, p *pgxpool.Pool) *pgledger.Ledger {
	t.Helper()
	return pgtest.Create(t, p, pgledger.New(p, nil))
}

// private returns a ledger on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgledger.Ledger) {
	t.Helper()
	server, p, l := onPostgres.Private(t, o)
	return server, p, l.(*pgledger.Ledger)
}

// onFile returns a ledger on a file, with tables that are created twice.
func onFile(tb testing.TB, db *sql.DB, o *sqliteledger.Options) *sqliteledger.Ledger {
	tb.Helper()
	l := sqliteledger.New(db, o)
	sqlitetest.Exec(tb, db, l.Schema())
	sqlitetest.Exec(tb, db, l.Schema())
	return l
}

// onOne returns a ledger on a file, and a pool of one connection.
func onOne(t *testing.T) (*sqliteledger.Ledger, *sql.DB) {
	t.Helper()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	return onFile(t, db, nil), db
}

func begin(t *testing.T, p *pgxpool.Pool, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := p.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

var committed = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// levels are the levels of isolation that a role or a database may have by default.
var levels = []string{"read committed", "repeatable read", "serializable"}

// effect returns an effect of a run under the fence of an epoch.
func effect(run, id string, epoch int64) ledger.Effect {
	return ledger.Effect{
		ID: id, Orchestrator: "bot", Session: "session of " + run, RunID: run, Intent: "pay", Name: "charge",
		Fence: fence(epoch), Args: json.RawMessage(`{"cents":100}`), ArgsSum: "k:1",
	}
}

// keyed returns an effect that belongs to the world.
func keyed(run, id string, epoch int64) ledger.Effect {
	e := effect(run, id, epoch)
	e.Key = "order of " + id
	return e
}

func fence(epoch int64) lock.Fence { return lock.Fence{Epoch: epoch, Nonce: fmt.Sprint("n", epoch)} }

// paid is the outcome of an attempt.
var paid = ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"receipt"`)}

func issue(t *testing.T, l ledger.Ledger, e ledger.Effect) ledger.Effect {
	t.Helper()
	now, issued, err := l.Issue(t.Context(), e, false)
	if err != nil || !issued {
		t.Fatalf("issue %s: issued %v, %v", e.ID, issued, err)
	}
	return now
}

func finish(t *testing.T, l ledger.Ledger, e ledger.Effect, o ledger.Outcome) ledger.Effect {
	t.Helper()
	now, err := l.Finish(t.Context(), e.ID, e.Attempts, o)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// kept returns the effect with an id, or one without an id.
func kept(t *testing.T, l ledger.Ledger, id string) (found ledger.Effect) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), ledger.Query{ID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		found = e
	}
	return found
}

// list returns the ids that a query yields, and those of them that are damaged.
func list(t *testing.T, l ledger.Ledger, q ledger.Query) (ids, damaged []string) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), q) {
		if d, is := errors.AsType[*ledger.DamagedError](err); is {
			damaged = append(damaged, d.ID)
		} else if err != nil {
			t.Errorf("%+v: %v", q, err)
		}
		ids = append(ids, e.ID)
	}
	return ids, damaged
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

// named gives the tables of a statement a prefix.
func named(prefix, text string) string {
	return strings.NewReplacer("{effects}", prefix+"effects", "{effect_fences}", prefix+"effect_fences").Replace(text)
}
