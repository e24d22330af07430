package sqliteinbox_test

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

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// fill adds answers, ten for each session.
func fill(tb testing.TB, db *sql.DB, n int) {
	tb.Helper()
	sqlitetest.Exec(tb, db, `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_inbox (orchestrator, session, kind, id, posted_by, shown, at, data)
		SELECT 'bot', printf('s%05d', i / 10), 'answer', 'q' || i, 'ada', '', i, '{}' FROM n`, n)
}

// Every statement finds its rows by an index, and in the order that it needs. So the cost of a list grows with what it
// yields.
func TestPlans(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	fill(t, db, 2000)
	const key = "sqlite_autoindex_holdfast_inbox_1 (orchestrator=? AND session=?"
	const order = "holdfast_inbox_order (orchestrator=? AND kind=? AND "
	uses := map[string]string{
		"posted": key + " AND kind=? AND id=?)", "alone": key + " AND kind=? AND id=?)",
		"list": order + "session=? AND (at,id)>(?,?))", "brief list": order + "session=? AND (at,id)>(?,?))",
		"list all": order + "(session,at,id)>(?,?,?))", "brief all": order + "(session,at,id)>(?,?,?))",
		"remove": key + " AND kind=? AND id=?)", "remove kind": order + "session=?)", "remove all": key + ")",
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			sqlitetest.Exec(t, db, "ANALYZE")
		}
		for _, name := range slices.Sorted(maps.Keys(sqliteinbox.Plans)) {
			text := s.Text(sqliteinbox.Plans[name])
			args := 0
			for strings.Contains(text, fmt.Sprint("?", args+1)) {
				args++
			}
			plan := sqlitetest.Plan(t, db, text, args)
			if strings.Contains(plan, "SCAN") || strings.Contains(plan, "TEMP B-TREE") ||
				!strings.Contains(plan, uses[name]) || uses[name] == "" {
				t.Errorf("analyzed %t: plan of %s:\n%swant %q", analyzed, name, plan, uses[name])
			}
		}
	}
}

// Pages hold no connection, so a pool of one connection serves a sequence whose loop writes.
func TestPages(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	fill(t, db, 300)
	n := 0
	for it, err := range s.Items(t.Context(), key(""), inbox.Answer) {
		if err != nil {
			t.Fatal(err)
		}
		if inUse := db.Stats().InUse; inUse != 0 {
			t.Fatalf("%d connections are held", inUse)
		}
		if it.ID != fmt.Sprint("q", n) {
			t.Fatalf("item %d is %s", n, it.ID)
		}
		if n++; n%100 == 0 {
			if err := s.Remove(t.Context(), it.Key, inbox.Answer, it.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != 300 {
		t.Errorf("%d items", n)
	}
}

var errStopped = errors.New("stopped")

// A call may be cut off at any point. It reports why, and the item is there as a whole, or not at all.
func TestCancelled(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	cut := 0
	for n := range 250 {
		session := fmt.Sprint("s", n)
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(rand.N(time.Millisecond), func() { cancel(errStopped) })
		_, err := s.Post(ctx, item(session, "q", "ada"))
		stop.Stop()
		cancel(nil)
		all, damaged := list(t, s, session)
		switch {
		case len(damaged) > 0:
			t.Fatal("half an item")
		case err != nil && !errors.Is(err, errStopped):
			t.Fatalf("a call that was cut off returns %v", err)
		case err == nil && len(all) != 1:
			t.Fatalf("%d items", len(all))
		case err != nil:
			cut++
		}
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
	t.Logf("%d calls were cut off", cut)
}

// A ctx ends the wait for another process, and the wait for another goroutine. Neither leaves the store stuck.
func TestCancelledWaiting(t *testing.T) {
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	post(t, s, item("s", "a", "ada"))
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
		wg.Go(func() {
			_, err := s.Post(ctx, item("s", fmt.Sprint("b", n), "ada"))
			want(t, err, errStopped)
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopped only after %v", took)
	}
	if err := readAll(t.Context(), s, ""); err != nil {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	post(t, s, item("s", "c", "ada"))
}
