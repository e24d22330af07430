package sqliteledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", epoch)}
}

// effect returns an effect of a run of epoch 1 that is ready to be issued.
func effect(run, id string) ledger.Effect {
	return ledger.Effect{
		ID: id, Orchestrator: "bot", Session: "session of " + run, RunID: run, Intent: "pay", Name: "charge", Each: id,
		Fence: fence(1), Args: json.RawMessage(`{"cents":100}`), ArgsSum: "k:1",
	}
}

var paid = ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"receipt"`)}

func issue(t *testing.T, l ledger.Ledger, e ledger.Effect) ledger.Effect {
	t.Helper()
	now, issued, err := l.Issue(t.Context(), e, false)
	if err != nil || !issued {
		t.Fatalf("Issue of %s: %+v, issued %t, %v", e.ID, now, issued, err)
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

// kept returns the effect with an id, or nil.
func kept(t *testing.T, l ledger.Ledger, id string) (found *ledger.Effect) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), ledger.Query{ID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		found = &e
	}
	return found
}

func readAll(ctx context.Context, l ledger.Ledger) error {
	for _, err := range l.Effects(ctx, ledger.Query{}) {
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

var epochs atomic.Int64

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, l *sqliteledger.Ledger) map[string]error {
	errs := make(map[string]error)
	f := fence(epochs.Add(1))
	e := effect("all", fmt.Sprint("all", f.Epoch))
	e.Fence, e.Class = f, ledger.Pure
	errs["Adopt"] = l.Adopt(ctx, e.RunID, f)
	_, _, errs["Issue"] = l.Issue(ctx, e, false)
	_, errs["Finish"] = l.Finish(ctx, e.ID, 1, paid)
	if errors.Is(errs["Finish"], ledger.ErrNotFound) {
		errs["Finish"] = errs["Issue"] // Issue could not write it
	}
	_, errs["Record"] = l.Record(ctx, e)
	errs["Effects"] = readAll(ctx, l)
	_, errs["Prune"] = l.Prune(ctx, time.Now().Add(-time.Hour))
	return errs
}

func newLedger(tb testing.TB, o *sqliteledger.Options) *sqliteledger.Ledger {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqliteledger.Options) *sqliteledger.Ledger {
	tb.Helper()
	l := sqliteledger.New(db, o)
	sqlitetest.Exec(tb, db, l.Schema())
	sqlitetest.Exec(tb, db, l.Schema())
	return l
}
