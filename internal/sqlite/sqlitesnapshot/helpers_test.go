package sqlitesnapshot_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func bot(session string) snapshot.Key { return snapshot.Key{Orchestrator: "bot", Session: session} }

func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", epoch)}
}

// run returns a run of epoch 1 that is ready to begin.
func run(session string) snapshot.Run {
	return snapshot.Run{
		Key: bot(session), ID: "run-of-" + session, Attempt: 1, Status: snapshot.Running,
		Fence: fence(1), Payload: json.RawMessage(`{"step":0}`),
	}
}

// next returns the next save of the owner.
func next(r snapshot.Run) snapshot.Run {
	r.Seq++
	r.Payload = json.RawMessage(fmt.Sprintf(`{"step":%d}`, r.Seq))
	return r
}

// withPart returns a save of the owner which adds a part.
func withPart(r snapshot.Run, name string) snapshot.Run {
	r.Seq++
	r.Payload = nil
	r.Parts = map[string]json.RawMessage{name: json.RawMessage(fmt.Sprintf(`{"part":%d}`, r.Seq))}
	return r
}

func begin(t *testing.T, s snapshot.Store, session string) snapshot.Run {
	t.Helper()
	r := run(session)
	if in, err := s.Begin(t.Context(), r); in != nil || err != nil {
		t.Fatalf("Begin finds %v, %v", in, err)
	}
	return r
}

// inFlight returns the session's run, or nil.
func inFlight(t *testing.T, s snapshot.Store, session string) (in *snapshot.Run) {
	t.Helper()
	for r, err := range s.Runs(t.Context(), snapshot.Query{Key: bot(session)}) {
		if err != nil {
			t.Fatal(err)
		}
		in = &r
	}
	return in
}

func adopt(ctx context.Context, s snapshot.Store, r snapshot.Run, f lock.Fence) error {
	_, err := s.Adopt(ctx, r.Key, f, 1<<20)
	return err
}

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

var epochs atomic.Int64

// callAll calls every method once and returns their errors by name.
func callAll(ctx context.Context, s *sqlitesnapshot.Store) map[string]error {
	errs := make(map[string]error)
	r := withPart(run("all"), "a")
	r.Fence = fence(epochs.Add(1))
	_, errs["Begin"] = s.Begin(ctx, r)
	errs["Adopt"] = adopt(ctx, s, r, r.Fence)
	errs["Save"] = s.Save(ctx, next(r))
	errs["Runs"] = readAll(ctx, s)
	errs["Delete"] = s.Delete(ctx, r.Key, r.ID, r.Fence)
	_, errs["Sweep"] = s.Sweep(ctx, 0)
	return errs
}

func readAll(ctx context.Context, s snapshot.Store) error {
	for _, err := range s.Runs(ctx, snapshot.Query{Key: bot("")}) {
		if err != nil {
			return err
		}
	}
	return nil
}

func newStore(tb testing.TB, o *sqlitesnapshot.Options) *sqlitesnapshot.Store {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqlitesnapshot.Options) *sqlitesnapshot.Store {
	tb.Helper()
	s := sqlitesnapshot.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
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
