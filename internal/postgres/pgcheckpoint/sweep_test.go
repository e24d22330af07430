package pgcheckpoint_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// headsSQL makes sessions without an owner. Every $3rd is idle since 1970, the others since now.
const headsSQL = `
	INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born, turn)
	SELECT 'bot', 's' || lpad(i::text, 8, '0'), 1, '', '', CASE WHEN $3 > 0 AND i % $3 = 0 THEN 'epoch' ELSE now() END, 1, -1
	FROM generate_series($1::integer, $2::integer) AS i`

// sweeping is a private server with sessions, and a store whose sessions are idle after an hour.
func sweeping(t *testing.T, sessions, idle int) (*pgxpool.Pool, *pgcheckpoint.Store) {
	t.Helper()
	p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL)
	s := pgcheckpoint.New(p, &pgcheckpoint.Options{TTL: time.Hour})
	create(t, p, s)
	pgtest.Exec(t, p, headsSQL, 1, sessions, idle)
	return p, s
}

// Beside many sessions of which none is idle, a limited sweep reads a few pages, however large the table is. Statistics
// make no difference.
func TestSweepReadsAPart(t *testing.T) {
	t.Parallel()
	p, s := sweeping(t, 200_000, 0)
	scans := func() (n int) {
		testenv.FlushStatistics(t, p)
		const sql = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'holdfast_sessions'"
		if err := p.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
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
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// Limited sweeps come past every session. Each sweep goes on where the last one stopped, also in another process.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.TTL = time.Hour
			sweepGoesOn(t, o)
		})
	}
}

func sweepGoesOn(t *testing.T, o pgcheckpoint.Options) {
	p, _ := sweeping(t, 10_000, 5_000) // two are idle, far apart
	s, other := pgcheckpoint.New(p, &o), pgcheckpoint.New(p, &o)
	create(t, p, s)
	retired := 0
	for range 10_000 / 2_000 {
		n, err := s.Sweep(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		retired += n
		if n, err := other.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Fatalf("beside the process that sweeps another retires %d, %v", n, err)
		}
	}
	if retired != 2 {
		t.Errorf("retired %d sessions, want 2", retired)
	}
	pgtest.Exec(t, p, headsSQL, 10_001, 10_001, 1)
	pgtest.Exec(t, p, "UPDATE holdfast_sessions_sweep SET until = now(), session = 's00009999'")
	if n, err := other.Sweep(t.Context(), 100); n != 1 || err != nil {
		t.Errorf("after the process that swept has died, another retires %d, %v", n, err)
	}
}

// If a statement may not take long, a sweep looks at fewer sessions at once.
func TestSweepUnderStatementTimeout(t *testing.T) {
	t.Parallel()
	p, s := sweeping(t, 50_000, 10)
	slow := `
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN OLD; END $$;
		CREATE TRIGGER slow BEFORE DELETE ON holdfast_sessions FOR EACH ROW EXECUTE FUNCTION slow()`
	pgtest.Exec(t, p, slow)
	pgtest.Exec(t, p, "ALTER ROLE CURRENT_USER SET statement_timeout = '1s'")
	p.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if n, err := s.Sweep(ctx, 150); n != 150 || err != nil {
		t.Errorf("retired %d, %v", n, err)
	}
}

// All idle sessions are retired in the end, and no others.
func TestSweepAll(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 300, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			p, s := sweeping(t, 7_000, 3)
			retired := 0
			for range 50 {
				n, err := s.Sweep(t.Context(), limit)
				if err != nil {
					t.Fatal(err)
				}
				retired += n
			}
			var left int
			if err := p.QueryRow(t.Context(), "SELECT count(*) FROM holdfast_sessions").Scan(&left); err != nil {
				t.Fatal(err)
			}
			if retired != 2_333 || left != 7_000-2_333 {
				t.Errorf("retired %d, left %d", retired, left)
			}
		})
	}
}
