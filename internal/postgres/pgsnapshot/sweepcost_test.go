package pgsnapshot_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// pastSQL makes sessions without a run in flight. The run of every $2nd was deleted in 1970. The runs of the others are
// deleted now.
const pastSQL = `
	INSERT INTO {runs} (orchestrator, session, epoch, nonce, found, id, status, seq, turn, attempt, parts, payload_version,
		started_at, saved_at, deleted_at, request_id, base, error)
	SELECT 'bot', 's' || lpad(i::text, 8, '0'), 1, 'n', 0, 'run', 'deleted', 1, 1, 1, false, 1, now(), now(),
		CASE WHEN $2 > 0 AND i % $2 = 0 THEN 'epoch' ELSE now() END, '', '', ''
	FROM generate_series(1, $1::integer) i`

// Beside many sessions that are all to be kept, a limited sweep reads a few pages, however much the table holds.
// Statistics make no difference.
func TestSweepReadsAPart(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	// The connection of p creates the tables. Another session could count late the scans that build its indexes.
	s := create(t, p, nil)
	if _, err := p.Exec(t.Context(), s.Fill(pastSQL), 200_000, 0); err != nil {
		t.Fatal(err)
	}
	scans := func() (n int) {
		testenv.FlushStatistics(t, p)
		const sql = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'holdfast_runs'"
		if err := p.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const sweeps = 10
	for _, known := range []string{"nothing", "the tables"} {
		p.Reset() // plans are made anew
		scanned, touched, start := scans(), server.Blocks(), time.Now()
		for range sweeps {
			if n, err := s.Sweep(t.Context(), 1000); n != 0 || err != nil {
				t.Fatalf("forgot %d, %v", n, err)
			}
		}
		took := time.Since(start) / sweeps
		touched = (server.Blocks() - touched) / sweeps
		t.Logf("with %s known a sweep takes %v and touches %d blocks", known, took, touched)
		if scanned = scans() - scanned; scanned > 0 || touched > 500 {
			t.Errorf("with %s known a sweep touches %d blocks, and %d scanned the whole table", known, touched, scanned)
		}
		if _, err := p.Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
}

// Limited sweeps reach every session, and continue at the session where the last sweep stopped. Meanwhile another
// process sweeps nothing.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Remember = time.Hour
			sweepGoesOn(t, o)
		})
	}
}

func sweepGoesOn(t *testing.T, o pgsnapshot.Options) {
	p := pgtest.EmptyPool(t)
	s, other := create(t, p, &o), pgsnapshot.New(p, &o)
	if _, err := p.Exec(t.Context(), s.Fill(pastSQL), 10_000, 5_000); err != nil { // two are old, far apart
		t.Fatal(err)
	}
	forgotten := 0
	for range 10_000 / 2_000 {
		n, err := s.Sweep(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		forgotten += n
		if n, err := other.Sweep(t.Context(), 100); n != 0 || err != nil {
			t.Fatalf("beside the process that sweeps another forgets %d, %v", n, err)
		}
	}
	if forgotten != 2 {
		t.Errorf("forgot %d sessions, want 2", forgotten)
	}
}
