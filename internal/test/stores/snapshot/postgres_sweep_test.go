package snapshot_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// past makes sessions without a run in flight. The run of every $2nd was deleted in 1970. The runs of the others are
// deleted now.
const past = filling + `'s' || lpad(i::text, 8, '0'), 'deleted',
	CASE WHEN $2 > 0 AND i % $2 = 0 THEN 'epoch' ELSE now() END, NULL FROM generate_series(1, $1::integer) i`

// Beside many sessions that are all to be kept, a limited sweep reads a few pages, however much the table holds.
// Statistics make no difference.
func TestSweepReadsAPart(t *testing.T) {
	t.Parallel()
	// The only connection creates the tables. Another session could count late the scans that build its indexes.
	server, p, s := counted(t, nil)
	pgtest.Exec(t, p, past, 200_000, 0)
	scans := func() int {
		testenv.FlushStatistics(t, p)
		return pgtest.Value[int](t, p, "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'holdfast_runs'")
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
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// Limited sweeps reach every session, and continue at the session where the last sweep stopped. Meanwhile another
// process sweeps nothing.
func TestSweepGoesOn(t *testing.T) {
	byEither(t, func(t *testing.T, functions bool) {
		p := pgtest.EmptyPool(t)
		o := pgsnapshot.Options{Remember: time.Hour, Functions: functions}
		s, other := pgOn(t, p, o), pgsnapshot.New(p, &o)
		pgtest.Exec(t, p, past, 10_000, 5_000) // two are old, far apart
		forgotten := 0
		for range 10_000 / 2_000 {
			n, err := s.Sweep(t.Context(), 100)
			check(t, err)
			forgotten += n
			if n, err := other.Sweep(t.Context(), 100); n != 0 || err != nil {
				t.Fatalf("beside the process that sweeps another forgets %d, %v", n, err)
			}
		}
		if forgotten != 2 {
			t.Errorf("forgot %d sessions, want 2", forgotten)
		}
	})
}
