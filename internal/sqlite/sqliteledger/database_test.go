package sqliteledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// fill adds effects that are finished, of many runs with 10 effects each.
func fill(tb testing.TB, db *sql.DB, n int) {
	tb.Helper()
	sqlitetest.Exec(tb, db, `WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		INSERT INTO holdfast_effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state,
			attempts, epoch, nonce, args_sum, issued_at, finished_at, answered_by, error, args, result)
		SELECT 'old' || i, 'bot', 's' || (i / 100), 'r' || (i / 10), 0, '', 'pay', i, '', 0, 'completed', 1, 1, 'n', '', i, i,
			'', '', '{}', '{}'
		FROM n`, n)
	sqlitetest.Exec(tb, db, `INSERT INTO holdfast_effect_fences (run_id, epoch, nonce, since)
		SELECT DISTINCT run_id, 1, 'n', 1 FROM holdfast_effects WHERE true ON CONFLICT DO NOTHING`)
}

var errStopped = errors.New("stopped")

// Prune waits for other writers only if there is something to forget. A write that is refused says so.
func TestWritersWait(t *testing.T) {
	dsn := testenv.SQLite(t)
	db := sqlitetest.Open(t, dsn)
	l := create(t, db, nil)
	e := issue(t, l, effect("run", "a"))
	finish(t, l, issue(t, l, effect("run", "old")), paid)
	other, err := sqlitetest.Open(t, dsn).Conn(t.Context())
	want(t, err, nil)
	defer other.Close()
	_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	want(t, err, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStopped)
	defer cancel()
	if n, err := l.Prune(ctx, time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("forgets %d, %v", n, err)
	}
	if n, err := l.Prune(ctx, time.Now().Add(time.Hour)); n != 0 || !errors.Is(err, errStopped) {
		t.Errorf("forgets %d, %v", n, err)
	}
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	want(t, err, nil)

	db.SetMaxOpenConns(1)
	sqlitetest.Exec(t, db, "PRAGMA query_only = on")
	_, err = l.Finish(t.Context(), e.ID, e.Attempts, paid)
	want(t, err, ledger.ErrRefused)
	_, err = l.Prune(t.Context(), time.Now().Add(time.Hour))
	want(t, err, ledger.ErrRefused)
	sqlitetest.Exec(t, db, "PRAGMA query_only = off")
	finish(t, l, e, paid)
}

// An owner that is fenced off between the two statements of an Issue does not take its successor's attempt for its own.
func TestIssueMeetsAdopt(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	low, high := create(t, sqlitetest.Open(t, dsn), nil), create(t, sqlitetest.Open(t, dsn), nil)
	for n := range 50 {
		run := fmt.Sprint("run", n)
		e := effect(run, run)
		issue(t, low, e)
		next := e
		next.Fence, next.Attempts = lock.Fence{Epoch: 2, Nonce: "next"}, 1
		var wg sync.WaitGroup
		var now ledger.Effect
		var issued bool
		var err error
		wg.Go(func() { now, issued, err = low.Issue(t.Context(), e, false) })
		wg.Go(func() {
			if again, issued, err := high.Issue(t.Context(), next, true); err != nil || !issued || again.Attempts != 2 {
				t.Errorf("%+v, %t, %v", again, issued, err)
			}
		})
		wg.Wait()
		if err == nil && (!issued || now.Attempts != 1) || err != nil && !errors.Is(err, lock.ErrFenced) {
			t.Errorf("the former owner is told %+v, %t, %v", now, issued, err)
		}
	}
}

// The largest documents and errors fit.
func TestLargest(t *testing.T) {
	t.Parallel()
	l := newLedger(t, nil)
	e := effect("run", "a")
	e.Args = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxDocument-2) + `"`)
	issued := issue(t, l, e)
	finish(t, l, issued, ledger.Outcome{State: ledger.Unknown, Error: strings.Repeat("x", ledger.MaxError)})
	finish(t, l, issued, ledger.Outcome{State: ledger.Completed, Result: e.Args})
	if e := kept(t, l, "a"); len(e.Args) != ledger.MaxDocument || len(e.Result) != ledger.MaxDocument {
		t.Errorf("%d and %d bytes are kept", len(e.Args), len(e.Result))
	}
}
