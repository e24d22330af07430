package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/citusrules"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// Citus cannot be run here. But its rules can be checked on the statements that a store sends under the suites, and on
// the statements of functions.
func TestCitus(t *testing.T) {
	t.Parallel()
	broken, writes := recorded(t, withFunctions)
	citusrules.WantKept(t, broken, "../../../postgres/pgcheckpoint/functions.sql", writes)
}

// The rules convict the statements.
func TestCitusConvicts(t *testing.T) {
	t.Parallel()
	broken, _ := recorded(t, pgcheckpoint.Options{},
		"claim-new", "renew", "append-repeat", "mark-raises", "delete-fences")
	citusrules.WantRules(t, broken, citusrules.Pipeline, citusrules.WithModifies, citusrules.VolatileSet,
		citusrules.Where, citusrules.Returning, citusrules.OnConflict, citusrules.AnySession, citusrules.LockShards,
		citusrules.InsertSelect, citusrules.Advisory)
}

// recorded runs the suites, or some clauses, on one store after another with the same tables. So it meets each
// statement once.
func recorded(t *testing.T, o pgcheckpoint.Options, clauses ...string) ([]citusrules.Breach, map[string][]string) {
	t.Helper()
	url := testenv.PostgresURL(t)
	plain := pgOn(t, pgtest.PoolOn(t, url), o)
	var r *citusrules.Recorder
	p := pgtest.PoolOn(t, url, func(c *pgxpool.Config) { r = citusrules.Record(c) })
	empty := func(t *testing.T, ttl time.Duration) *pgcheckpoint.Store {
		for _, table := range []string{"sessions", "turns", "labels", "watches", "beats", "sessions_sweep"} {
			plain.exec(t, "DELETE FROM holdfast_"+table)
		}
		o.TTL = ttl
		return pgcheckpoint.New(p, &o)
	}
	if len(clauses) > 0 {
		checkpointtest.Violations(t.Context(), func() checkpoint.Store { return empty(t, 0) }, clauses...)
	} else {
		runAll(t, empty, plain)
	}
	s := empty(t, time.Hour)
	claim(t, s, "raised")
	_, swept := s.Sweep(t.Context(), 0)
	_, raised := s.Raise(t.Context(), time.Time{})
	if err := errors.Join(swept, raised); err != nil {
		t.Error(err)
	}
	broken, writes, err := r.Broken(t.Context(), plain.pool, "holdfast_sessions", "holdfast_turns", "holdfast_labels")
	check(t, err)
	return broken, writes
}

func runAll(t *testing.T, empty func(*testing.T, time.Duration) *pgcheckpoint.Store, plain pg) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return empty(t, 0) })
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return empty(t, ttl)
	})
	locktest.RunWatcher(t, func(t *testing.T) lock.Watcher { return empty(t, 0) })
	locktest.RunBeater(t, func(t *testing.T) lock.Beater { return empty(t, 0) })
	checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
		return pg{empty(t, 0), plain.pool, spoil{"born = 0", "run_id = ''"}}
	})
}

// No lock separates births from deletes. Suppose that a claim waits for another, and that the session is taken over and
// deleted meanwhile. The claim must not begin the next life with an epoch of an earlier one.
func TestFunctionsBirthAfterDelete(t *testing.T) {
	t.Parallel()
	s := newPG(t, withFunctions)
	tx := s.lock(t, "SELECT")
	claim := func(from lock.Fence, nonce string) (f lock.Fence) {
		t.Helper()
		check(t, tx.QueryRow(t.Context(), s.Fill(
			`SELECT epoch, nonce FROM {session_claim}('bot', 'a', $1, 'test', 1000000, $2, $3, 0, '', false)`),
			nonce, from.Epoch, from.Nonce).Scan(&f.Epoch, &f.Nonce))
		return f
	}
	first := claim(lock.Fence{}, "first")
	born := make(chan checkpoint.Claimed, 1)
	go func() {
		defer close(born)
		c, err := s.Claim(t.Context(), key("a"), request())
		if err != nil {
			t.Error(err)
		}
		born <- c
	}()
	pgtest.AwaitBlocked(t, s.pool, tx)
	second := claim(first, "second")
	var deleted bool
	err := tx.QueryRow(t.Context(), s.Fill(`SELECT {session_delete}('bot', 'a', $1, $2)`), second.Epoch, second.Nonce).
		Scan(&deleted)
	if err != nil || !deleted {
		t.Fatalf("deleted: %v, %v", deleted, err)
	}
	check(t, tx.Commit(t.Context()))
	if c := <-born; c.Fence.Epoch <= second.Epoch || c.Born != c.Fence.Epoch {
		t.Errorf("born %d with epoch %d, after a life with epoch %d", c.Born, c.Fence.Epoch, second.Epoch)
	}
}

// headsSQL makes sessions without an owner. Every $3rd is idle since 1970, the others since now.
const headsSQL = `
	INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
	SELECT 'bot', 's' || lpad(i::text, 8, '0'), 1, '', '', CASE WHEN $3 > 0 AND i % $3 = 0 THEN 'epoch' ELSE now() END, 1, -1
	FROM generate_series($1::integer, $2::integer) AS i`

// Statements and functions end the same owners, also if they are more than a page.
func TestPostgresRaisePages(t *testing.T) {
	either(t, func(t *testing.T, o pgcheckpoint.Options) {
		s := newPG(t, o)
		s.exec(t, headsSQL, 1, 1_500, 0) // more than a page, all without an owner
		s.exec(t, "UPDATE {sessions} SET nonce = 'n', lease_until = now() + interval '1 hour'")
		l := claim(t, s, "a").Lease
		if n, err := s.Raise(t.Context(), time.Time{}); n != 1_501 || err != nil {
			t.Fatalf("ended %d leases, %v", n, err)
		}
		want(t, s.Append(t.Context(), l, turn(0), none), lock.ErrFenced)
		for _, session := range []string{"a", "s00000001", "s00001500"} {
			c, err := s.Claim(t.Context(), key(session), request())
			if err != nil || c.Fence.Epoch <= l.Fence.Epoch {
				t.Errorf("%s is claimed with epoch %d after %d, %v", session, c.Fence.Epoch, l.Fence.Epoch, err)
			}
		}
		if n, err := s.Raise(t.Context(), time.Time{}); n != 3 || err != nil {
			t.Errorf("once more ended %d leases, %v", n, err)
		}
	})
}

// sweeping is a store on a private server with sessions. They are idle after an hour.
func sweeping(t *testing.T, o pgcheckpoint.Options, sessions, idle int) pg {
	t.Helper()
	o.TTL = time.Hour
	s := pgOn(t, pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL), o)
	s.exec(t, headsSQL, 1, sessions, idle)
	return s
}

// Beside many sessions of which none is idle, a limited sweep reads a few pages, however large the table is. Statistics
// make no difference.
func TestPostgresSweepReadsAPart(t *testing.T) {
	t.Parallel()
	s := sweeping(t, pgcheckpoint.Options{}, 200_000, 0)
	scans := func() int {
		testenv.FlushStatistics(t, s.pool)
		const sql = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'holdfast_sessions'"
		return pgtest.Value[int](t, s.pool, sql)
	}
	for _, known := range []string{"nothing", "the tables"} {
		before := scans()
		start := time.Now()
		for range 10 {
			if n, err := s.Sweep(t.Context(), 1000); n != 0 || err != nil {
				t.Fatalf("retired %d, %v", n, err)
			}
		}
		t.Logf("with %s known: %v a sweep", known, time.Since(start)/10)
		if got := scans() - before; got > 0 {
			t.Errorf("with %s known: %d scans of the whole table", known, got)
		}
		s.exec(t, "ANALYZE")
	}
}

// Limited sweeps come past every session. Each sweep goes on where the last one stopped, also in another process.
func TestPostgresSweepGoesOn(t *testing.T) {
	either(t, func(t *testing.T, o pgcheckpoint.Options) {
		s := sweeping(t, o, 10_000, 5_000) // two are idle, far apart
		o.TTL = time.Hour
		other := pgcheckpoint.New(s.pool, &o)
		retired := 0
		for range 10_000 / 2_000 {
			retired += must[int](t)(s.Sweep(t.Context(), 100))
			if n, err := other.Sweep(t.Context(), 100); n != 0 || err != nil {
				t.Fatalf("beside the process that sweeps another retires %d, %v", n, err)
			}
		}
		if retired != 2 {
			t.Errorf("retired %d sessions, want 2", retired)
		}
		s.exec(t, headsSQL, 10_001, 10_001, 1)
		s.exec(t, "UPDATE holdfast_sessions_sweep SET until = now(), session = 's00009999'")
		if n, err := other.Sweep(t.Context(), 100); n != 1 || err != nil {
			t.Errorf("after the process that swept has died, another retires %d, %v", n, err)
		}
	})
}

// If a statement may not take long, a sweep looks at fewer sessions at once.
func TestPostgresSweepUnderStatementTimeout(t *testing.T) {
	t.Parallel()
	s := sweeping(t, pgcheckpoint.Options{}, 50_000, 10)
	s.exec(t, `
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END $$;
		CREATE TRIGGER slow BEFORE DELETE ON holdfast_sessions FOR EACH ROW EXECUTE FUNCTION slow();
		ALTER ROLE CURRENT_USER SET statement_timeout = '1s'`)
	s.pool.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if n, err := s.Sweep(ctx, 150); n != 150 || err != nil {
		t.Errorf("retired %d, %v", n, err)
	}
}

// All idle sessions are retired in the end, and no others.
func TestPostgresSweepAll(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 300, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			s := sweeping(t, pgcheckpoint.Options{}, 7_000, 3)
			retired := 0
			for range 50 {
				retired += must[int](t)(s.Sweep(t.Context(), limit))
			}
			left := pgtest.Value[int](t, s.pool, "SELECT count(*) FROM holdfast_sessions")
			if retired != 2_333 || left != 7_000-2_333 {
				t.Errorf("retired %d, left %d", retired, left)
			}
		})
	}
}

// Dead turns are removed before they take up much room. A setting that is there stays, and no reader is waited for.
func TestPostgresAutovacuum(t *testing.T) {
	t.Parallel()
	p := testenv.Postgres(t)
	s := pg{Store: pgcheckpoint.New(p, nil), pool: p}
	wantOption := func(want string) {
		t.Helper()
		const sql = "SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = 'holdfast_turns'::regclass"
		if got := pgtest.Value[string](t, s.pool, sql); !strings.Contains(got, want) {
			t.Errorf("the options of the table are %q, want %s", got, want)
		}
	}
	wantOption("autovacuum_vacuum_scale_factor=0.02")
	s.exec(t, "ALTER TABLE {turns} SET (autovacuum_vacuum_scale_factor = 0.5)")
	s.exec(t, s.Schema())
	wantOption("autovacuum_vacuum_scale_factor=0.5")
	s.exec(t, "ALTER TABLE {turns} RESET (autovacuum_vacuum_scale_factor)")
	s.lock(t, "SELECT FROM {turns}")
	s.exec(t, "SET statement_timeout = '5s'; "+s.Schema())
}

// The schema may be run again beside readers, writers and a vacuum: it waits for none of them.
func TestPostgresSchemaAgain(t *testing.T) {
	t.Parallel()
	s := pgOn(t, testenv.Postgres(t), pgcheckpoint.Options{})
	// Before 14 PostgreSQL has no attcompression, and no lz4.
	const sql = `SELECT count(*) FROM pg_attribute a
		LEFT JOIN pg_settings ON name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)
		WHERE attrelid = 'holdfast_turns'::regclass AND attname IN ('state', 'payload')
			AND (to_jsonb(a) ->> 'attcompression' = 'l' OR name IS NULL)`
	if compressed := pgtest.Value[int](t, s.pool, sql); compressed != 2 {
		t.Errorf("%d columns are compressed as well as the server can", compressed)
	}
	// A vacuum takes this lock; a writer takes a weaker one.
	s.lock(t, "LOCK TABLE {turns}, {sessions} IN SHARE UPDATE EXCLUSIVE MODE")
	s.exec(t, "SET statement_timeout = '5s'; "+s.Schema())
}
