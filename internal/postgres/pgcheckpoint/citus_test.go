package pgcheckpoint_test

import (
	"errors"
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
	citusrules.WantKept(t, broken, "functions.sql", writes)
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
	plain := pgtest.PoolOn(t, url)
	create(t, plain, pgcheckpoint.New(plain, &o))
	var r *citusrules.Recorder
	p := pgtest.PoolOn(t, url, func(c *pgxpool.Config) { r = citusrules.Record(c) })
	empty := func(t *testing.T, ttl time.Duration) *pgcheckpoint.Store {
		pgtest.Exec(t, plain, "DELETE FROM holdfast_sessions; DELETE FROM holdfast_turns; "+
			"DELETE FROM holdfast_watches; DELETE FROM holdfast_beats")
		pgtest.Exec(t, plain, "DELETE FROM holdfast_sessions_sweep")
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
	broken, writes, err := r.Broken(t.Context(), plain, "holdfast_sessions", "holdfast_turns")
	if err != nil {
		t.Fatal(err)
	}
	return broken, writes
}

func runAll(t *testing.T, empty func(*testing.T, time.Duration) *pgcheckpoint.Store, plain *pgxpool.Pool) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return empty(t, 0) })
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return empty(t, ttl)
	})
	locktest.RunWatcher(t, func(t *testing.T) lock.Watcher { return empty(t, 0) })
	locktest.RunBeater(t, func(t *testing.T) lock.Beater { return empty(t, 0) })
	checkpointtest.RunDamaged(t, func(t *testing.T) checkpointtest.DamagingStore {
		return spoiled{empty(t, 0), plain, "born = 0", "run_id = ''"}
	})
}
