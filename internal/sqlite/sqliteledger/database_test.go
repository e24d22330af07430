package sqliteledger_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
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

// Every statement finds its rows by an index, and in the order that it needs. So the cost of an Issue, and of the list
// of what is open, does not grow with what is finished.
func TestPlans(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	l := create(t, db, nil)
	fill(t, db, 2000)
	for i := range 20 {
		issue(t, l, effect("run", fmt.Sprint(i)))
	}
	byNumber, byID := "INTEGER PRIMARY KEY (rowid>?", "sqlite_autoindex_holdfast_effects_1 (id=?)"
	uses := map[string]string{
		"fence": "PRIMARY KEY (run_id=?)", "unknown": "holdfast_effects_run (run_id=?)", "met": byID, "effect": byID,
		"reissue": byID, "finish": byID, "complete": byID, "list all": byNumber, "brief all": byNumber,
		"list open": "holdfast_effects_open (number>?", "brief open": "holdfast_effects_open (number>?",
		"list run": "holdfast_effects_run (run_id=? AND rowid>?)", "brief run": "holdfast_effects_run (run_id=? AND rowid>?)",
		"list session":  "holdfast_effects_session (session=? AND rowid>?)",
		"brief session": "holdfast_effects_session (session=? AND rowid>?)",
		"list id":       byID, "brief id": byID, "slice": byNumber, "forget": byNumber,
		"fence slice": "PRIMARY KEY (run_id>?", "forget fences": "PRIMARY KEY (run_id>?",
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			sqlitetest.Exec(t, db, "ANALYZE")
		}
		for _, name := range slices.Sorted(maps.Keys(sqliteledger.Plans)) {
			text := l.Text(sqliteledger.Plans[name])
			args := 0
			for strings.Contains(text, fmt.Sprint("?", args+1)) {
				args++
			}
			plan := sqlitetest.Plan(t, db, text, args)
			scans := strings.ReplaceAll(plan, "SCAN (subquery", "") // of the rows of a slice
			if strings.Contains(scans, "SCAN") || strings.Contains(plan, "TEMP B-TREE") ||
				!strings.Contains(plan, uses[name]) || uses[name] == "" {
				t.Errorf("analyzed %t: plan of %s:\n%swant %q", analyzed, name, plan, uses[name])
			}
		}
	}
}

// Prune forgets what is old in batches, which meet without a gap, and leaves the rest.
func TestPruneBatches(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	l := create(t, db, nil)
	const n = 2345
	fill(t, db, n)
	sqlitetest.Exec(t, db, `UPDATE holdfast_effects SET finished_at = 9e15 WHERE number % 7 = 0`)
	sqlitetest.Exec(t, db, `UPDATE holdfast_effects SET state = 'unknown' WHERE number % 11 = 0`)
	sqlitetest.Exec(t, db, `UPDATE holdfast_effects SET key = 'k' WHERE number % 13 = 0`)
	old := 0
	for i := 1; i <= n; i++ {
		if i%7 != 0 && i%11 != 0 && i%13 != 0 {
			old++
		}
	}
	for _, want := range []int{old, 0} {
		if got, err := l.Prune(t.Context(), time.Now()); got != want || err != nil {
			t.Errorf("forgets %d, %v, want %d", got, err, want)
		}
	}
	var left, idle int
	err := db.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM holdfast_effects), (SELECT count(*) FROM holdfast_effect_fences
			WHERE run_id NOT IN (SELECT run_id FROM holdfast_effects))`).Scan(&left, &idle)
	if err != nil || left != n-old || idle != 0 {
		t.Errorf("%d effects and %d fences without one are left, %v; want %d effects", left, idle, err, n-old)
	}
}

// Pages hold no connection, so a pool of one connection serves a sequence whose loop writes.
func TestPages(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	l := create(t, db, nil)
	fill(t, db, 300)
	n := 0
	for e, err := range l.Effects(t.Context(), ledger.Query{Orchestrator: "bot"}) {
		if err != nil {
			t.Fatal(err)
		}
		if inUse := db.Stats().InUse; inUse != 0 {
			t.Fatalf("%d connections are held", inUse)
		}
		if n++; e.ID != fmt.Sprint("old", n) {
			t.Fatalf("effect %d is %s", n, e.ID)
		}
		if n%100 == 0 {
			want(t, l.Adopt(t.Context(), e.RunID, fence(2)), nil)
		}
	}
	if n != 300 {
		t.Errorf("%d effects", n)
	}
}

var errStopped = errors.New("stopped")

// A call may be cut off at any point. It reports why, and the effect is as before the call or as after it.
func TestCancelled(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	l := create(t, db, nil)
	cut := 0
	for n := range 250 {
		run := fmt.Sprint("run", n)
		id := run + " a"
		e := effect(run, id)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(rand.N(time.Millisecond), func() { cancel(errStopped) })
		var err error
		var before, after ledger.State
		switch n % 4 {
		case 0:
			after = ledger.Issued
			_, _, err = l.Issue(ctx, e, false)
		case 1:
			issue(t, l, e)
			before, after = ledger.Issued, ledger.Completed
			_, err = l.Finish(ctx, id, 1, paid)
		case 2:
			issue(t, l, e)
			before, after = ledger.Issued, ledger.Unknown
			err = l.Adopt(ctx, run, fence(2))
		case 3:
			after = ledger.Completed
			e.Class, e.Result = ledger.Pure, paid.Result
			_, err = l.Record(ctx, e)
		}
		stop.Stop()
		cancel(nil)
		var now ledger.State
		if found := kept(t, l, id); found != nil {
			now = found.State
		}
		switch {
		case err != nil && !errors.Is(err, errStopped):
			t.Fatalf("a call that was cut off returns %v", err)
		case err == nil && now != after, now != before && now != after:
			t.Fatalf("after %v the effect is %q, want %q or %q", err, now, before, after)
		case err != nil:
			cut++
		}
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	t.Logf("%d calls were cut off", cut)
}

// A ctx ends the wait for another process, and the wait for another goroutine. Neither leaves the ledger stuck.
func TestCancelledWaiting(t *testing.T) {
	dsn := testenv.SQLite(t)
	l := create(t, sqlitetest.Open(t, dsn), nil)
	e := issue(t, l, effect("run", "a"))
	other, err := sqlitetest.Open(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errStopped)
	defer cancel()
	var wg sync.WaitGroup
	began := time.Now()
	for range 4 {
		wg.Go(func() {
			_, _, err := l.Issue(ctx, effect("run", "b"), false)
			want(t, err, errStopped)
		})
		wg.Go(func() {
			_, err := l.Finish(ctx, e.ID, 1, paid)
			want(t, err, errStopped)
		})
		wg.Go(func() { want(t, l.Adopt(ctx, "run", fence(2)), errStopped) })
	}
	wg.Wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopped only after %v", took)
	}
	if err := readAll(t.Context(), l); err != nil {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	finish(t, l, e, paid)
}

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
