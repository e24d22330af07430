package sqliteturnlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
)

// fill adds turns of two entries that are settled. Each hundredth is open.
func fill(tb testing.TB, db *sql.DB, n int) {
	tb.Helper()
	sqlitetest.Exec(tb, db, `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_logged (run, orchestrator, session, turn, first, last, started, settled, open)
		SELECT 'r' || i, 'bot', 's' || i / 10, 0, i * 10, i * 10 + 1, i * 10, CASE WHEN i % 100 THEN i * 10 + 1 END, NOT i % 100
		FROM n`, n)
	sqlitetest.Exec(tb, db, `INSERT INTO holdfast_phases (run, at, phase, state)
		SELECT run, first, 'started', '{}' FROM holdfast_logged
		UNION ALL SELECT run, last, CASE open WHEN 1 THEN 'llm-complete' ELSE 'settled' END, '{}' FROM holdfast_logged`)
}

// Every statement finds its rows by an index, and in the order that it needs. So the cost of a Restore, and of the list
// of what is open, does not grow with the turns that have settled.
func TestPlans(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	l := create(t, db, nil)
	fill(t, db, 2000)
	const key = "sqlite_autoindex_holdfast_phases_1 (run=?"
	uses := map[string]string{
		"known": key + " AND at=? AND phase=?)", "restore": key + ")", "brief restore": key + ")",
		"list all": "holdfast_logged_first ((first,run)>(?,?))", "brief all": "holdfast_logged_first ((first,run)>(?,?))",
		"list open": "holdfast_logged_open ((first,run)>(?,?))", "brief open": "holdfast_logged_open ((first,run)>(?,?))",
		"list session":  "holdfast_logged_session (session=? AND (first,run)>(?,?))",
		"brief session": "holdfast_logged_session (session=? AND (first,run)>(?,?))",
		"slice":         "PRIMARY KEY (run>?", "forget phases": key, "forget": "PRIMARY KEY (run>?",
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			sqlitetest.Exec(t, db, "ANALYZE")
		}
		for _, name := range slices.Sorted(maps.Keys(sqliteturnlog.Plans)) {
			text := l.Text(sqliteturnlog.Plans[name])
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
	const n, young = 2345, 345
	fill(t, db, n)
	sqlitetest.Exec(t, db, `UPDATE holdfast_logged SET settled = 9e14 WHERE settled > (?1 - ?2) * 10`, n, young)
	old := (n - young) * 99 / 100
	for _, want := range []int{old, 0} {
		if got, err := l.Prune(t.Context(), at(0)); got != want || err != nil {
			t.Errorf("forgets %d, %v, want %d", got, err, want)
		}
	}
	var turns, entries int
	err := db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM holdfast_logged), count(*) FROM holdfast_phases`).
		Scan(&turns, &entries)
	if err != nil || turns != n-old || entries != 2*turns {
		t.Errorf("%d turns with %d entries are left, %v; want %d turns", turns, entries, err, n-old)
	}
}

// A Prune whose delete fails says so, and has forgotten nothing. It counts what earlier transactions forgot.
func TestPruneFails(t *testing.T) {
	t.Parallel()
	for _, table := range []string{"holdfast_phases", "holdfast_logged"} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			db := sqlitetest.Open(t, testenv.SQLite(t))
			l := create(t, db, nil)
			for i := range 150 {
				run := fmt.Sprintf("run %03d", i)
				record(t, l, entry(run, turnlog.Started, 0), entry(run, turnlog.Settled, 1))
			}
			for _, c := range []struct {
				first           string
				forgotten, left int
			}{{"run 000", 0, 150}, {"run 120", 100, 50}} {
				sqlitetest.Fail(t, db, "DELETE ON "+table+" WHEN old.run >= '"+c.first+"'")
				n, err := l.Prune(t.Context(), at(5000))
				if n != c.forgotten || err == nil || !strings.Contains(err.Error(), sqlitetest.Failing) {
					t.Errorf("forgets %d, %v; want %d", n, err, c.forgotten)
				}
				runs, damaged := list(t, l, turnlog.Query{})
				if len(runs) != c.left || len(damaged) > 0 {
					t.Errorf("%d turns are left, %q damaged", len(runs), damaged)
				}
				sqlitetest.Mend(t, db)
			}
		})
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
	for s, err := range l.Turns(t.Context(), turnlog.Query{Orchestrator: "bot"}) {
		if err != nil {
			t.Fatal(err)
		}
		if inUse := db.Stats().InUse; inUse != 0 {
			t.Fatalf("%d connections are held", inUse)
		}
		if s.First.Run != fmt.Sprint("r", n) {
			t.Fatalf("turn %d is %s", n, s.First.Run)
		}
		if n++; n%100 == 0 {
			record(t, l, entry(s.First.Run, "peer-call", 0))
		}
	}
	if n != 300 {
		t.Errorf("%d turns", n)
	}
}

var errStopped = errors.New("stopped")

// A call may be cut off at any point. It reports why, and the entry is there as a whole, or not at all.
func TestCancelled(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	l := create(t, db, nil)
	cut := 0
	for n := range 250 {
		run := fmt.Sprint("run", n)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(rand.N(time.Millisecond), func() { cancel(errStopped) })
		err := l.Record(ctx, entry(run, turnlog.Started, 0))
		stop.Stop()
		cancel(nil)
		all, restored := l.Restore(t.Context(), run)
		switch {
		case restored != nil:
			t.Fatal(restored)
		case err != nil && !errors.Is(err, errStopped):
			t.Fatalf("a call that was cut off returns %v", err)
		case err == nil && len(all) != 1:
			t.Fatalf("%d entries", len(all))
		case err != nil:
			cut++
		}
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	t.Logf("%d calls were cut off", cut)
}

// A ctx ends the wait for another process, and the wait for another goroutine. Neither leaves the log stuck.
func TestCancelledWaiting(t *testing.T) {
	dsn := testenv.SQLite(t)
	l := create(t, sqlitetest.Open(t, dsn), nil)
	record(t, l, entry("run", turnlog.Started, 0))
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
	for n := range 4 {
		wg.Go(func() { want(t, l.Record(ctx, entry("run", turnlog.ToolReceived, n)), errStopped) })
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
	record(t, l, entry("run", turnlog.Settled, 9))
}
