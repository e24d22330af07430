package sqlitecheckpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Every statement finds its rows by an index. Owing sessions have an index of their own. The search for idle sessions
// reads a range of the primary key.
func TestPlans(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, nil)
	for i := range 40 {
		l := mustClaim(t, s, fmt.Sprint("s", i)).Lease
		cp := turn(0)
		cp.RequestID = fmt.Sprint("request-", i)
		want(t, s.Append(t.Context(), l, cp, checkpoint.AppendOptions{Owes: i%10 == 0}), nil)
	}
	uses := map[string]string{
		"owing": "holdfast_sessions_owed (orchestrator=? AND session>? AND session<?)", "answered": "holdfast_turns_request (orchestrator=? AND session=? AND request_id=? AND turn<?)",
		"sessions": "(orchestrator=? AND session>? AND session<?)", "prune": "(orchestrator=? AND session=? AND turn>? AND turn<?)",
		"slice": "PRIMARY KEY ((orchestrator,session)>(?,?))", "idle": "PRIMARY KEY ((orchestrator,session)>(?,?) AND (orchestrator,session)<(?,?))",
	}
	for _, analyzed := range []bool{false, true} {
		if analyzed {
			sqlitetest.Exec(t, db, "ANALYZE")
		}
		for _, name := range slices.Sorted(maps.Keys(sqlitecheckpoint.Plans)) {
			plan := sqlitetest.Plan(t, db, s.Text(sqlitecheckpoint.Plans[name]), 9)
			scans := strings.Contains(strings.ReplaceAll(plan, "SCAN json_each VIRTUAL TABLE", ""), "SCAN")
			if scans || strings.Contains(plan, "TEMP B-TREE") || !strings.Contains(plan, uses[name]) {
				t.Errorf("analyzed %t: plan of %s:\n%swant %q", analyzed, name, plan, uses[name])
			}
		}
	}
}

var errStopped = errors.New("stopped")

// If a call is cut off at any time, its error says why, and the session is as before the call or as after it.
func TestCancelled(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, &sqlitecheckpoint.Options{TTL: time.Nanosecond})
	for n := range 150 {
		session := fmt.Sprint("s", n%5)
		c, err := rob(t.Context(), s, session, checkpoint.ClaimRequest{Nonce: fmt.Sprint("n", n), TTL: time.Hour})
		want(t, err, nil)
		next := 0
		if c.Last != nil {
			next = c.Last.Turn + 1
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for range rand.N(3000) {
				_ = ctx.Err()
			}
			cancel(errStopped)
		}()
		calls := []func() error{
			func() error { return s.Append(ctx, c.Lease, turn(next), checkpoint.AppendOptions{Keep: 2, Owes: true}) },
			func() error { return s.Mark(ctx, c.Lease, checkpoint.Marks{Delivered: next, Release: true}) },
			func() error { _, err := s.Renew(ctx, time.Hour, []checkpoint.Lease{c.Lease}); return err },
			func() error { _, err := s.Sweep(ctx, 0); return err },
			func() error { return s.Delete(ctx, c.Lease) },
			func() error { return readAll(ctx, s) },
		}
		if err := calls[rand.N(len(calls))](); err != nil && !errors.Is(err, errStopped) {
			t.Fatalf("a call that was cut off returns %v", err)
		}
		cancel(nil)
	}
	for _, whole := range []string{
		`SELECT count(*) FROM holdfast_sessions h WHERE turn - first + 1 <> (SELECT count(*) FROM holdfast_turns t WHERE t.session = h.session AND turn BETWEEN first AND h.turn)`,
		`SELECT count(*) FROM holdfast_turns WHERE session NOT IN (SELECT session FROM holdfast_sessions)`,
		`SELECT count(*) FROM holdfast_turns t JOIN holdfast_sessions h USING (session) WHERE t.turn < h.first OR t.turn > h.turn`,
	} {
		var wrong int
		if err := db.QueryRowContext(t.Context(), whole).Scan(&wrong); err != nil || wrong != 0 {
			t.Errorf("%d half-written: %s %v", wrong, whole, err)
		}
	}
}

func readAll(ctx context.Context, s *sqlitecheckpoint.Store) error {
	for session, err := range s.Sessions(ctx, checkpoint.SessionQuery{Orchestrator: "bot"}) {
		if err != nil {
			return err
		}
		for _, err := range s.Turns(ctx, bot(session), checkpoint.Newest) {
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// A ctx ends the wait for another process, and for another goroutine, and neither leaves the store stuck.
func TestCancelledWaiting(t *testing.T) {
	dsn := testenv.SQLite(t)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	l := mustClaim(t, s, "a").Lease
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
		wg.Go(func() { want(t, s.Append(ctx, l, turn(0), checkpoint.AppendOptions{}), errStopped) })
		wg.Go(func() { want(t, s.Delete(ctx, l), errStopped) })
		wg.Go(func() {
			_, err := s.Claim(ctx, bot("b"), request())
			want(t, err, errStopped)
		})
	}
	wg.Wait()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("stopped only after %v", took)
	}
	if _, err := other.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	want(t, s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}), nil)
}

// One pool has many connections, and a busy timeout that is far too short for all to poll.
func TestNobodyBusy(t *testing.T) {
	t.Parallel()
	dsn := strings.Replace(testenv.SQLite(t), "busy_timeout(60000)", "busy_timeout(1000)", 1)
	s := create(t, sqlitetest.Open(t, dsn), nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c, err := s.Claim(t.Context(), bot(fmt.Sprint(i)), request())
			want(t, err, nil)
			for n := range 4 {
				want(t, s.Append(t.Context(), c.Lease, turn(n), checkpoint.AppendOptions{Keep: 3}), nil)
			}
		})
	}
	wg.Wait()
}

// A sequence holds no connection while it yields.
func TestNothingHeld(t *testing.T) {
	db := sqlitetest.Open(t, testenv.SQLite(t))
	db.SetMaxOpenConns(1)
	s := create(t, db, nil)
	l := mustClaim(t, s, "a").Lease
	for n := range 30 {
		want(t, s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{}), nil)
	}
	for _, err := range s.Turns(t.Context(), bot("a"), checkpoint.Newest) {
		want(t, err, nil)
		if inUse := db.Stats().InUse; inUse != 0 {
			t.Fatalf("%d connections are held", inUse)
		}
	}
	for _, err := range s.Sessions(t.Context(), checkpoint.SessionQuery{Orchestrator: "bot"}) {
		want(t, err, nil)
		if inUse := db.Stats().InUse; inUse != 0 {
			t.Fatalf("%d connections are held", inUse)
		}
	}
}

// Batches of Sweep, pages of Sessions and pages of Turns meet without a gap.
func TestPages(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	s := create(t, db, &sqlitecheckpoint.Options{TTL: time.Hour})
	want(t, claim(t, s), nil)
	sqlitetest.Exec(t, db, `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1234)
		INSERT INTO holdfast_sessions SELECT 'bot', printf('s%04d', i), 1, '', '', iif(i % 5 = 0, 9e15, 1),
			1, 0, 0, 0, 0, iif(i % 7 = 0, 0, NULL), i % 14 = 0, iif(i % 14 = 0, 9e15, 0) FROM n`)
	sqlitetest.Exec(t, db, `INSERT INTO holdfast_turns SELECT orchestrator, session, 0, '0', NULL, '[]', '', '', 'r', NULL, 1 FROM holdfast_sessions WHERE turn = 0`)
	all := sessions(t, s, checkpoint.SessionQuery{Orchestrator: "bot"})
	if len(all) != 1235 || !slices.IsSorted(all) || len(slices.Compact(all)) != 1235 {
		t.Errorf("%d sessions, want 1235", len(all))
	}
	some := sessions(t, s, checkpoint.SessionQuery{Orchestrator: "bot", After: "s0009", Limit: 700})
	if len(some) != 700 || some[699] != "s0709" {
		t.Errorf("%d sessions, want 700", len(some))
	}
	if owing := sessions(t, s, checkpoint.SessionQuery{Orchestrator: "bot", Owing: true}); len(owing) != 177 {
		t.Errorf("%d sessions owe, want 177", len(owing))
	}
	if due := sessions(t, s, checkpoint.SessionQuery{Orchestrator: "bot", Owing: true, Due: true}); len(due) != 88 {
		t.Errorf("%d sessions are due, want 88", len(due))
	}
	idle := 0
	for i := range 1235 {
		if i%5 != 0 && i%7 != 0 {
			idle++
		}
	}
	for _, step := range []struct{ limit, retired int }{{250, 250}, {1, 1}, {0, idle - 251}, {0, 0}} {
		if n, err := s.Sweep(t.Context(), step.limit); n != step.retired || err != nil {
			t.Errorf("Sweep(%d) retires %d, %v; want %d", step.limit, n, err, step.retired)
		}
	}
	var left int
	err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM holdfast_turns`).Scan(&left)
	if err != nil || left != 1235-idle {
		t.Errorf("%d turns are left, want %d: %v", left, 1235-idle, err)
	}
}
