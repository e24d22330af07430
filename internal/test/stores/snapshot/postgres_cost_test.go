package snapshot_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// private returns a store on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgsnapshot.Store) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := pgtest.PoolOn(t, server.URL)
	return server, p, pgOn(t, p, pgsnapshot.Options{})
}

// counted is private for a test that counts what the server does. The pool keeps its plans.
func counted(t *testing.T, settings map[string]string) (*testenv.Server, *pgxpool.Pool, *pgsnapshot.Store) {
	t.Helper()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: settings})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	return server, p, pgOn(t, p, pgsnapshot.Options{})
}

// byEither runs a test of stores that send statements, and of stores that call functions.
func byEither(t *testing.T, test func(t *testing.T, functions bool)) {
	t.Helper()
	t.Parallel()
	for name, functions := range map[string]bool{"statements": false, "functions": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, functions)
		})
	}
}

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, _, s := private(t, &testenv.Options{Count: true})
	ctx, r, second := t.Context(), run("a"), runAs("a", "second", 3)
	replaces := step(second, 2)
	sweep := func() error { _, err := s.Sweep(ctx, 0); return err }
	begins := func(r snapshot.Run, found bool, target error) func() error {
		return func() error {
			in, err := s.Begin(ctx, r)
			if found != (in != nil) || !errors.Is(err, target) {
				return fmt.Errorf("begin finds %v: %w", in, err)
			}
			return nil
		}
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", sweep, 2},
		{"first begin of a session", begins(r, false, nil), 2},
		{"begin that finds a run", begins(r, true, nil), 3},
		{"save", func() error { return s.Save(ctx, next(r)) }, 1},
		{"adopt", func() error { return take(ctx, s, "a", 2) }, 1},
		{"delete", func() error { return s.Delete(ctx, r.Key, r.ID, fence(2)) }, 1},
		{"late begin", begins(r, false, lock.ErrFenced), 4},
		{"begin of another run", begins(second, false, nil), 1},
		{"save of a part", func() error { return s.Save(ctx, adding(second, "one")) }, 1},
		{"adopt of a run with a part", func() error { return take(ctx, s, "a", 3) }, 3},
		{"save that drops the part", func() error { return s.Save(ctx, replaces) }, 2},
		{"delete of a run that had a part", func() error { return remove(ctx, s, second) }, 2},
		{"sweep", sweep, 1},
		{"nothing", func() error { return nil }, 0},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// filling is SQL that adds rows. The columns that it names have the values that follow, for each i of a series.
const filling = `
	INSERT INTO holdfast_runs (orchestrator, epoch, nonce, found, id, seq, turn, attempt, parts, payload_version, started_at,
		saved_at, request_id, base, error, session, status, deleted_at, payload)
	SELECT 'bot', 1, 'n', 0, 'run', 1, 1, 1, false, 1, now(), now(), '', '', '', `

// The cost of a list grows with the runs in flight, not with the sessions without a run. PostgreSQL need not have
// statistics of either.
func TestPostgresListing(t *testing.T) {
	t.Parallel()
	server, p, s := counted(t, map[string]string{"autovacuum": "off"})
	pgtest.Exec(t, p, filling+"'s' || i, 'deleted', now(), NULL FROM generate_series(0, 99999) i")
	for i := range 100 {
		r := long(fmt.Sprintf("s%d", 1000*i))
		r.Fence = fence(2)
		begin(t, s, r)
	}
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset() // plans are made anew
		touched, statements := server.Blocks(), server.Statements()
		n := len(listed(t, s, ""))
		statements = server.Statements() - statements
		touched = server.Blocks() - touched
		t.Logf("with %s known: %d blocks", known, touched)
		if n != 100 || statements != 3 || touched > 400 {
			t.Errorf("with %s known a list of %d runs takes %d statements, want 3, and touches %d blocks",
				known, n, statements, touched)
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// The cost of a list for a drain does not grow with the runs that wait for a person. PostgreSQL need not have
// statistics of them, and a plan that was made before there were any serves.
func TestPostgresUnattendedListing(t *testing.T) {
	t.Parallel()
	server, p, s := counted(t, map[string]string{"autovacuum": "off"})
	list := func(q snapshot.Query) (n int) {
		q.Orchestrator, q.Brief = "bot", true
		for _, err := range s.Runs(t.Context(), q) {
			check(t, err)
			n++
		}
		return n
	}
	queries := []snapshot.Query{{Unattended: true}, {Status: snapshot.Waiting}}
	for range 10 { // the server keeps a plan after some calls
		list(queries[0])
		list(queries[1])
	}
	pgtest.Exec(t, p, filling+`'s' || i, CASE i % 1000 WHEN 0 THEN 'waiting' ELSE 'suspended' END, NULL, '{}'
		FROM generate_series(1, 10000) i`)
	for _, known := range []string{"a plan of before", "nothing", "statistics"} {
		for _, q := range queries {
			touched, statements := server.Blocks(), server.Statements()
			n := list(q)
			statements = server.Statements() - statements
			touched = server.Blocks() - touched
			t.Logf("with %s: %d blocks for %+v", known, touched, q)
			if n != 10 || statements != 1 || touched > 100 {
				t.Errorf("with %s a list of %+v has %d runs, takes %d statements, want 1, and touches %d blocks",
					known, q, n, statements, touched)
			}
		}
		if known == "nothing" {
			pgtest.Exec(t, p, "ANALYZE")
		}
		p.Reset() // plans are made anew
	}
}

// A brief list reads no payload, and takes one statement for a thousand runs. A list of runs that wait for a person
// reads no payload either.
func TestPostgresBriefListing(t *testing.T) {
	t.Parallel()
	server, p, s := counted(t, nil)
	const runs = 1001
	pgtest.Exec(t, p, "ALTER TABLE holdfast_runs ALTER COLUMN payload SET STORAGE EXTERNAL")
	pgtest.Exec(t, p, filling+`'s' || lpad(i::text, 6, '0'), 'running', NULL, to_jsonb(repeat('x', 5000))
		FROM generate_series(1, 1001) i`)
	toast := func() int {
		testenv.FlushStatistics(t, p)
		return pgtest.Value[int](t, p,
			"SELECT toast_blks_hit + toast_blks_read FROM pg_statio_user_tables WHERE relname = 'holdfast_runs'")
	}
	list := func(brief, bare bool) (statements int64, blocks int) {
		q := snapshot.Query{Key: key(""), Brief: brief}
		read, n := toast(), 0
		statements = server.Statements()
		for r, err := range s.Runs(t.Context(), q) {
			n++
			if want := fmt.Sprintf("s%06d", n); err != nil || r.Session != want || (r.Payload == nil) != bare {
				t.Fatalf("run %d is of %q with %d bytes of payload, want %q: %v",
					n, r.Session, len(r.Payload), want, err)
			}
		}
		if n != runs {
			t.Errorf("%d runs, want %d", n, runs)
		}
		return server.Statements() - statements, toast() - read
	}
	if statements, read := list(false, false); read == 0 {
		t.Errorf("the whole runs are listed by %d statements, and their payloads are in the rows", statements)
	}
	if statements, read := list(true, true); statements != 2 || read > 0 {
		t.Errorf("a brief list of %d runs takes %d statements, want 2, and reads %d blocks of payloads",
			runs, statements, read)
	}
	for _, status := range []snapshot.Status{snapshot.Suspended, snapshot.Parked} {
		pgtest.Exec(t, p, "UPDATE holdfast_runs SET status = $1", string(status))
		if _, read := list(false, true); read > 0 {
			t.Errorf("a list of %s runs reads %d blocks of payloads", status, read)
		}
	}
}

// If the server does not wait for its disk by default, all calls but Delete do, and a Settle does.
func TestPostgresDurable(t *testing.T) {
	byEither(t, func(t *testing.T, functions bool) {
		_, p, _ := private(t, &testenv.Options{Settings: pgtest.Lazy()})
		s := pgOn(t, p, pgsnapshot.Options{Prefix: "durable_", Functions: functions})
		turns, ctx := pgTurns(t, p, "durable_", functions), t.Context()
		settle := s.Join(turns)
		pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
			r := runAs(fmt.Sprintf("s%d", n%10), "run", int64(3*n+1)) // half of them begin in place of a deleted run
			call("Begin", func() error { _, err := s.Begin(ctx, r); return err })
			call("Save", func() error { return s.Save(ctx, step(r, 1)) })
			call("Save of a part", func() error { return s.Save(ctx, adds(r, 2, parts("one", 1))) })
			r.Fence = fence(r.Fence.Epoch + 1)
			call("Adopt", func() error { return take(ctx, s, r.Session, r.Fence.Epoch) })
			call("Delete", func() error { return remove(ctx, s, r) })
			call("Adopt that finds no run", func() error {
				if err := take(ctx, s, r.Session, r.Fence.Epoch+1); !errors.Is(err, snapshot.ErrNotFound) {
					return fmt.Errorf("adopted: %w", err)
				}
				return nil
			})

			r = run(fmt.Sprint("settled", n))
			c, err := turns.Claim(ctx, r.Key, checkpoint.ClaimRequest{Owner: "test", Nonce: r.Session, TTL: time.Hour})
			check(t, err)
			r.Fence = c.Fence
			begin(t, s, r)
			cp := checkpoint.Checkpoint{RunID: r.ID, State: r.Payload}
			call("Settle", func() error {
				forgotten, err := settle(ctx, c.Lease, cp, checkpoint.AppendOptions{})
				return errors.Join(err, unless(forgotten, "the run is still in flight"))
			})
		}, "Delete")
	})
}

// A save touches no index, with a payload of some KiB in its row. This holds for a session that had runs before, and
// beside other sessions on its page. The server is private: the snapshots of other sessions would keep dead versions in
// the page.
func TestPostgresHeapOnly(t *testing.T) {
	t.Parallel()
	_, p, s := counted(t, nil)
	const sessions, turns, saves = 20, 3, 10
	for turn := range turns {
		for i := range sessions {
			r := runAs(fmt.Sprintf("s%d", i), "run", int64(turn+1))
			begin(t, s, r)
			for r.Payload = long("").Payload; r.Seq < saves; {
				r.Seq++
				check(t, s.Save(t.Context(), r))
			}
			check(t, remove(t.Context(), s, r))
		}
	}
	// The first Begin of a session inserts. Other Begins and all Deletes update deleted_at, which the index of the runs
	// in flight depends on.
	const all, others = sessions * (turns*(saves+1) + turns - 1), sessions * (2*turns - 1)
	var updates, hot int
	for deadline := time.Now().Add(time.Minute); updates < all && time.Now().Before(deadline); {
		testenv.FlushStatistics(t, p)
		check(t, p.QueryRow(t.Context(), `SELECT pg_stat_get_tuples_updated('holdfast_runs'::regclass),
			pg_stat_get_tuples_hot_updated('holdfast_runs'::regclass)`).Scan(&updates, &hot))
	}
	t.Logf("%d of %d updates were heap-only, of %d saves", hot, updates, all-others)
	if updates != all || hot < (all-others)*9/10 {
		t.Errorf("%d of %d updates were heap-only, of %d saves", hot, updates, all-others)
	}
}

// A save without a payload writes the same amount for payloads of all sizes, in the row or out of it.
func TestPostgresPayloadIsNotRewritten(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3 << 10, 1 << 20} {
		_, p, s := private(t, &testenv.Options{Settings: map[string]string{
			"autovacuum": "off", "full_page_writes": "off",
		}})
		var incompressible strings.Builder
		for incompressible.Len() < size {
			incompressible.WriteString(rand.Text())
		}
		r := run("a")
		r.Payload = fmt.Appendf(nil, "%q", incompressible.String())
		begin(t, s, r)
		logged := func() int64 { // how many bytes the log has
			return pgtest.Value[int64](t, p, "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
		}
		const saves = 50
		before := logged()
		for range saves {
			r = adding(r, fmt.Sprintf("part-%d", r.Seq))
			check(t, s.Save(t.Context(), r))
		}
		each := (logged() - before) / saves
		t.Logf("%d bytes beside a payload of %d", each, size)
		if each > 1500 {
			t.Errorf("beside a payload of %d bytes a save of a part writes %d bytes to the log", size, each)
		}
	}
}

// Parts that are not read any more are removed: by the next Save with a payload, by Delete, or else by Sweep.
func TestPostgresPartsAreRemoved(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := pgOn(t, p, pgsnapshot.Options{Remember: time.Microsecond})
	wantParts := func(want ...string) {
		t.Helper()
		got := pgtest.Value[[]string](t, p,
			"SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM holdfast_run_parts")
		if !slices.Equal(got, want) {
			t.Errorf("parts %q are there, want %q", got, want)
		}
	}
	turn := func(epoch int64, left ...string) {
		t.Helper()
		r := runAs("a", "run", epoch)
		r.Parts = parts("begun", 1)
		saved := adding(begin(t, s, r), "added")
		check(t, s.Save(t.Context(), saved))
		replaces := next(saved)
		replaces.Parts = map[string]json.RawMessage{"replaced": json.RawMessage(`1`)}
		check(t, s.Save(t.Context(), replaces))
		wantParts(left...)
		check(t, remove(t.Context(), s, r))
	}
	turn(1, "replaced")
	wantParts()
	pgtest.Exec(t, p, "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
	pgtest.Exec(t, p, "CREATE TRIGGER keep BEFORE DELETE ON holdfast_run_parts FOR EACH ROW EXECUTE FUNCTION keep()")
	turn(2, "added", "begun", "replaced")
	pgtest.Exec(t, p, "DROP FUNCTION keep CASCADE")
	for swept := 0; swept == 0; { // until the server's clock has moved on
		var err error
		swept, err = s.Sweep(t.Context(), 0)
		check(t, err)
	}
	wantParts()
}
