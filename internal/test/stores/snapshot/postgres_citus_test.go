package snapshot_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/citusrules"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Citus cannot be run here. But its rules can be checked on the statements that the suites make a store send, and on
// the statements that the store's functions run.
func TestCitus(t *testing.T) {
	t.Parallel()
	broken, writes := recorded(t, true)
	citusrules.WantKept(t, broken, "../../../postgres/pgsnapshot/functions.sql", writes)
}

// The rules convict the statements.
func TestCitusConvicts(t *testing.T) {
	t.Parallel()
	broken, _ := recorded(t, false, "begin", "adopt", "parts", "delete", "begin-late")
	citusrules.WantRules(t, broken, citusrules.Pipeline, citusrules.WithModifies, citusrules.VolatileSet,
		citusrules.Returning, citusrules.OnConflict, citusrules.AnySession, citusrules.LockShards,
		citusrules.InsertSelect)
}

// recorded runs the suites, or some clauses, on one store after another with the same tables, so that each statement is
// told once.
func recorded(t *testing.T, functions bool, clauses ...string) ([]citusrules.Breach, map[string][]string) {
	t.Helper()
	o := pgsnapshot.Options{Functions: functions}
	turns := pgcheckpoint.Options{Functions: functions}
	url := testenv.PostgresURL(t)
	plain := pgtest.PoolOn(t, url)
	pgtest.Exec(t, plain, pgsnapshot.New(plain, &o).Schema()+pgcheckpoint.New(plain, &turns).Schema())
	var r *citusrules.Recorder
	p := pgtest.PoolOn(t, url, func(c *pgxpool.Config) { r = citusrules.Record(c) })
	empty := func(remember time.Duration) *pgsnapshot.Store {
		pgtest.Exec(t, plain, `DELETE FROM holdfast_runs; DELETE FROM holdfast_run_parts; DELETE FROM holdfast_runs_sweep;
			DELETE FROM holdfast_sessions; DELETE FROM holdfast_turns; DELETE FROM holdfast_labels`)
		o.Remember = remember
		return pgsnapshot.New(p, &o)
	}
	if len(clauses) > 0 {
		snapshottest.Violations(t.Context(), func() snapshot.Store { return empty(0) }, clauses...)
	} else {
		runAll(t, empty, plain, pgcheckpoint.New(p, &turns))
	}
	s := empty(time.Hour)
	_, begun := s.Begin(t.Context(), run("raised"))
	_, swept := s.Sweep(t.Context(), 0)
	_, raised := s.Raise(t.Context(), time.Time{})
	if err := errors.Join(begun, swept, raised); err != nil {
		t.Error(err)
	}
	broken, writes, err := r.Broken(t.Context(), plain,
		"holdfast_sessions", "holdfast_turns", "holdfast_runs", "holdfast_run_parts")
	check(t, err)
	return broken, writes
}

func runAll(
	t *testing.T, empty func(time.Duration) *pgsnapshot.Store, plain *pgxpool.Pool, turns checkpoint.Store,
) {
	snapshottest.Run(t, func(*testing.T) snapshot.Store { return empty(0) })
	snapshottest.RunSweeper(t, func(_ *testing.T, remember time.Duration) snapshottest.SweepingStore {
		return empty(remember)
	})
	snapshottest.RunDamaged(t, func(*testing.T) snapshottest.DamagingStore {
		return spoiledPG(empty(0), plain, "id = ''")
	})
	snapshottest.RunJoiner(t, func(*testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
		return empty(0), turns
	})
}
