package sqlitesnapshot_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Every statement finds its rows by an index, and in the order that it needs.
func TestPlans(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	for i := range 40 {
		r := begin(t, s, fmt.Sprint(i))
		want(t, s.Save(t.Context(), withPart(r, "a")), nil)
		if i%10 > 0 {
			want(t, s.Delete(t.Context(), r.Key, r.ID, r.Fence), nil)
		}
	}
	uses := map[string]string{
		"runs":  "holdfast_runs_inflight (orchestrator=? AND session>?)",
		"brief": "holdfast_runs_inflight (orchestrator=? AND session>?)",
		"slice": "INTEGER PRIMARY KEY (rowid>?)",
		"old":   "INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "forget": "INTEGER PRIMARY KEY (rowid=?)",
		"parts": "(orchestrator=? AND session=?)", "drop parts": "(orchestrator=? AND session=?)",
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			sqlitetest.Exec(t, db, "ANALYZE")
		}
		for _, name := range slices.Sorted(maps.Keys(sqlitesnapshot.Plans)) {
			plan := sqlitetest.Plan(t, db, s.Text(sqlitesnapshot.Plans[name]), 15)
			has := func(text string) bool { return strings.Contains(plan, text) }
			if !has("SEARCH") || has("SCAN") || has("TEMP B-TREE") || !has(uses[name]) {
				t.Errorf("analyzed %t: plan of %s:\n%swant %q", analyzed, name, plan, uses[name])
			}
		}
	}
}

// timeless describes a run without the times, which the store sets.
func timeless(r *snapshot.Run) string {
	if r == nil {
		return "none"
	}
	c := *r
	c.Age, c.StartedAt, c.SavedAt = 0, time.Time{}, time.Time{}
	return fmt.Sprintf("%+v %s", c, r.Payload)
}

var errStopped = errors.New("stopped")

// A call may be cut off at any point. It reports why, and the run with its parts is as before the call or as after it.
func TestCancelled(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	cut := 0
	for n := range 250 {
		session := fmt.Sprint("s", n)
		r := begin(t, s, session)
		if n%2 == 0 {
			r = withPart(r, "a")
			want(t, s.Save(t.Context(), r), nil)
			r.Payload = run(session).Payload
		}
		saved, added, adopted := next(r), withPart(r, "b"), r
		saved.Parts = nil
		more := added
		more.Payload, more.Parts = r.Payload, maps.Clone(r.Parts)
		if more.Parts == nil {
			more.Parts = added.Parts
		}
		maps.Copy(more.Parts, added.Parts)
		adopted.Fence, adopted.Attempt = fence(2), 2
		late := run(fmt.Sprint("late", n))
		late.Parts = r.Parts
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := time.AfterFunc(rand.N(2*time.Millisecond), func() { cancel(errStopped) })
		calls := []struct {
			session       string
			call          func() error
			before, after *snapshot.Run
		}{
			{late.Session, func() error { _, err := s.Begin(ctx, late); return err }, nil, &late},
			{session, func() error { return s.Save(ctx, saved) }, &r, &saved},
			{session, func() error { return s.Save(ctx, added) }, &r, &more},
			{session, func() error { return adopt(ctx, s, r, fence(2)) }, &r, &adopted},
			{session, func() error { return s.Delete(ctx, r.Key, r.ID, r.Fence) }, &r, nil},
			{session, func() error { return readAll(ctx, s) }, &r, &r},
		}
		c := calls[rand.N(len(calls))]
		err := c.call()
		stop.Stop()
		cancel(nil)
		got := timeless(whole(t, db, s, c.session))
		switch {
		case err != nil && !errors.Is(err, errStopped):
			t.Fatalf("a call that was cut off returns %v", err)
		case err == nil && got != timeless(c.after), got != timeless(c.after) && got != timeless(c.before):
			t.Fatalf("after %v %s is in flight, want %s or %s", err, got, timeless(c.before), timeless(c.after))
		case err != nil:
			cut++
		}
	}
	wantTidy(t, db)
	t.Logf("%d calls were cut off", cut)
}

// whole returns the session's run with its parts, or nil.
func whole(t *testing.T, db *sql.DB, s snapshot.Store, session string) *snapshot.Run {
	t.Helper()
	in := inFlight(t, s, session)
	if in == nil {
		return nil
	}
	rows, err := db.QueryContext(t.Context(), "SELECT name, doc FROM holdfast_run_parts WHERE session = ?", session)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name, doc string
		if err := rows.Scan(&name, &doc); err != nil {
			t.Fatal(err)
		}
		if in.Parts == nil {
			in.Parts = make(map[string]json.RawMessage)
		}
		in.Parts[name] = json.RawMessage(doc)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return in
}

// wantTidy shows that a run has parts if its row says so, and that there are no other parts.
func wantTidy(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, wrong := range []string{
		`SELECT count(*) FROM holdfast_runs
			WHERE parts <> ((orchestrator, session) IN (SELECT orchestrator, session FROM holdfast_run_parts))`,
		`SELECT count(*) FROM holdfast_run_parts
			WHERE (orchestrator, session) NOT IN (SELECT orchestrator, session FROM holdfast_runs)`,
	} {
		var n int
		if err := db.QueryRowContext(t.Context(), wrong).Scan(&n); err != nil || n != 0 {
			t.Errorf("%d are wrong: %s %v", n, wrong, err)
		}
	}
}

// A late owner that begins between the two statements of an Adopt does not fence off the latest owner. The two wait for
// one connection. If the Adopt gets it first, the Begin is done before the second statement of the Adopt.
func TestAdoptMeetsLateBegin(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	// These are two stores: of two calls on one store, only one would wait for the connection.
	latest, late := create(t, db, nil), create(t, db, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	want(t, errors.Join(readAll(ctx, latest), readAll(ctx, late)), nil)
	for n := range 20 { // chance decides which call gets the connection first
		r := run(fmt.Sprint(n))
		conn, err := db.Conn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waited := db.Stats().WaitCount
		var wg sync.WaitGroup
		wg.Go(func() { want(t, adopt(ctx, latest, r, fence(2)), nil) })
		wg.Go(func() {
			_, err := late.Begin(ctx, r)
			want(t, err, nil)
		})
		for db.Stats().WaitCount < waited+2 && ctx.Err() == nil {
			runtime.Gosched()
		}
		conn.Close()
		wg.Wait()
		if in := inFlight(t, latest, r.Session); in == nil || in.Fence != fence(2) {
			t.Errorf("%s is in flight", timeless(in))
		}
	}
}

// A ctx ends the wait for another process, and the wait for another goroutine. Neither leaves the store stuck.
func TestCancelledWaiting(t *testing.T) {
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	r := begin(t, s, "a")
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
		wg.Go(func() { want(t, s.Save(ctx, next(r)), errStopped) })
		wg.Go(func() { want(t, s.Save(ctx, withPart(r, "a")), errStopped) })
		wg.Go(func() { want(t, s.Delete(ctx, r.Key, r.ID, r.Fence), errStopped) })
		wg.Go(func() { want(t, adopt(ctx, s, r, fence(2)), errStopped) })
		wg.Go(func() {
			_, err := s.Begin(ctx, run("b"))
			want(t, err, errStopped)
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopped only after %v", took)
	}
	if err := readAll(t.Context(), s); err != nil {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	want(t, s.Save(t.Context(), next(r)), nil)
}

// Pages meet without a gap, and hold no connection. So a pool of one connection serves a sequence whose loop writes.
func TestPages(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	begin(t, s, "s0000")
	sqlitetest.Exec(t, db, `WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 999)
		INSERT INTO holdfast_runs SELECT orchestrator, printf('s%04d', i), printf('r%d', i), request_id, turn, attempt,
			base, iif(i % 5 = 0, 'waiting', 'running'), seq, epoch, nonce, 0, error, not_before, started_at, saved_at,
			NULL, 0, payload
		FROM n, holdfast_runs`)
	sqlitetest.Exec(t, db, `INSERT INTO holdfast_runs SELECT orchestrator, session || 'over', id, request_id, turn, attempt,
			base, status, seq, epoch, nonce, 0, error, not_before, started_at, saved_at, saved_at, 0, NULL
		FROM holdfast_runs`)
	for _, c := range []struct {
		q           snapshot.Query
		n           int
		first, last string
	}{
		{snapshot.Query{}, 1000, "s0000", "s0999"},
		{snapshot.Query{After: "s0009", Limit: 700}, 700, "s0010", "s0709"},
		{snapshot.Query{Limit: 80}, 80, "s0000", "s0079"},
		{snapshot.Query{Limit: 1}, 1, "s0000", "s0000"},
		{snapshot.Query{Status: snapshot.Waiting}, 199, "s0005", "s0995"},
	} {
		c.q.Orchestrator = "bot"
		var names []string
		for r, err := range s.Runs(t.Context(), c.q) {
			if err != nil {
				t.Fatal(err)
			}
			if inUse := db.Stats().InUse; inUse != 0 {
				t.Fatalf("%d connections are held", inUse)
			}
			if len(names)%100 == 0 {
				want(t, adopt(t.Context(), s, r, fence(2)), nil)
			}
			names = append(names, r.Session)
		}
		if len(names) != c.n || names[0] != c.first || names[len(names)-1] != c.last || !slices.IsSorted(names) ||
			!slices.Equal(slices.Compact(slices.Clone(names)), names) {
			t.Errorf("%+v yields %d runs, want %d from %s to %s", c.q, len(names), c.n, c.first, c.last)
		}
	}
}

// Batches of Sweep meet without a gap, and take the sessions that are old and have no run in flight.
func TestSweepBatches(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := create(t, db, &sqlitesnapshot.Options{Remember: time.Hour})
	begin(t, s, "s0000")
	sqlitetest.Exec(t, db, `WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1234)
		INSERT INTO holdfast_runs SELECT orchestrator, printf('s%04d', i), id, request_id, turn, attempt, base, status,
			seq, epoch, nonce, 0, error, not_before, started_at, saved_at,
			iif(i % 5 = 0, NULL, iif(i % 7 = 0, 9e15, 1)), 0, NULL
		FROM n, holdfast_runs`)
	old := 0
	for i := range 1235 {
		if i%5 != 0 && i%7 != 0 {
			old++
		}
	}
	for _, step := range []struct{ limit, forgotten int }{{250, 250}, {1, 1}, {0, old - 251}, {0, 0}} {
		if n, err := s.Sweep(t.Context(), step.limit); n != step.forgotten || err != nil {
			t.Errorf("Sweep(%d) forgets %d, %v; want %d", step.limit, n, err, step.forgotten)
		}
	}
	var left int
	err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM holdfast_runs`).Scan(&left)
	if err != nil || left != 1235-old {
		t.Errorf("%d rows are left, want %d: %v", left, 1235-old, err)
	}
}
