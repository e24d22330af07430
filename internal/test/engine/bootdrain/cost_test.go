package bootdrain_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// multiplySQL makes many sessions of one.
const multiplySQL = `
	INSERT INTO %[1]s SELECT another.* FROM %[1]s AS one, generate_series(1, $1::integer) AS i,
		jsonb_populate_record(one, jsonb_build_object('session', 'idle ' || i)) AS another
	WHERE one.session = 'idle 0'`

// The cost of a drain beside ten thousand idle sessions, counted at the server: a few statements for each run in
// flight, and none for a session without a run.
func cost(t *testing.T) {
	const inFlight, idle, most = 100, 10_000, 8
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	db := migrated(t, "pgx", server.URL, migrations.Postgres)
	s := site{Postgres: server.URL, Effects: filepath.Join(t.TempDir(), "effects")}
	w := openSite(t, s)
	w.limits.DeadAfter = -1 // each process beats once a second, whatever there is to do
	b, err := w.bot(nil)
	if err != nil {
		t.Fatal(err)
	}
	pass := func(want int) (int64, time.Duration) {
		t.Helper()
		before := server.Statements()
		report, err := bootdrain.DrainInterrupted(t.Context(), b, &bootdrain.Options{Logger: quiet})
		if err != nil || report.Scanned != want || report.Settled != want {
			t.Fatalf("%+v, %v", report, err)
		}
		return server.Statements() - before, report.Elapsed
	}
	crash := func(kind string) {
		t.Helper()
		orphan(t, s, w, names(kind, inFlight)...)
	}
	if _, err := b.Execute(t.Context(), "idle 0", orchestrator.Input{Text: "hello"}, nil); err != nil {
		t.Fatal(err)
	}
	nothing, _ := pass(0)
	crash("alone")
	alone, _ := pass(inFlight)
	for _, table := range []string{"holdfast_sessions", "holdfast_turns"} {
		run(t, db, fmt.Sprintf(multiplySQL, table), idle)
	}
	if got, _ := pass(0); got != nothing {
		t.Errorf("a pass over nothing beside %d idle sessions takes %d statements, and %d without them", idle, got,
			nothing)
	}
	crash("beside")
	beside, took := pass(inFlight)
	if beside > most*inFlight || beside != alone {
		t.Errorf(
			"a pass over %d runs takes %d statements, and %d beside %d idle sessions; at most %d a run are allowed",
			inFlight, alone, beside, idle, most)
	}
	t.Logf("%d runs in flight beside %d idle sessions: %d statements, %.2f a run, in %v; over nothing: %d",
		inFlight, idle, beside, float64(beside)/inFlight, took.Round(time.Millisecond), nothing)
	wantRuns(t, b, 0)
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}
