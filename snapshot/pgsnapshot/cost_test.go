package pgsnapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/faulttest"
	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/pgsnapshot"
)

func newStore(t *testing.T) snapshot.Store { return open(t, nil, nil) }

func TestModel(t *testing.T) { faulttest.SnapshotModel(t, newStore) }

func TestRacingBegins(t *testing.T) { faulttest.RacingBegins(t, newStore, 10_000) }

func run(session string) snapshot.Run {
	return snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: session}, ID: "run-of-" + session, Attempt: 1, Status: snapshot.Running,
		Fence: lock.Fence{Epoch: 1, Nonce: "n"}, Payload: json.RawMessage(`{"text":"` + strings.Repeat("Where is my order? ", 200) + `"}`),
	}
}

// private returns a store on a server of the test's own.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgsnapshot.Store) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := pgsnapshot.New(p, nil)
	if _, err := p.Exec(t.Context(), s.Schema()); err != nil {
		t.Fatal(err)
	}
	return server, p, s
}

// What each call costs, counted at the server, and what listing costs beside a long history.
func TestStatements(t *testing.T) {
	t.Parallel()
	server, p, s := private(t, &testenv.Options{Count: true})
	if _, err := p.Exec(t.Context(), `
		CREATE UNLOGGED TABLE holdfast_turns (orchestrator text, session text, turn int);
		INSERT INTO holdfast_turns SELECT 'bot', 's' || i % 10000, i / 10000 FROM generate_series(0, 999999) i`); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := s.Begin(t.Context(), run(fmt.Sprintf("s%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	r := run("a")
	saved := r
	saved.Seq = 1
	f := lock.Fence{Epoch: 2, Nonce: "m"}
	for _, step := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"begin", func() error { _, err := s.Begin(t.Context(), r); return err }, 1},
		{"begin that finds a run", func() error { _, err := s.Begin(t.Context(), r); return err }, 1},
		{"save", func() error { return s.Save(t.Context(), saved) }, 1},
		{"adopt", func() error { _, err := s.Adopt(t.Context(), r.Key, f, 3); return err }, 1},
		{"delete", func() error { return s.Delete(t.Context(), r.Key, r.ID, f) }, 1},
		{"list 100 runs beside 1,000,000 turns", func() error {
			n := 0
			for _, err := range s.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
				if err != nil {
					return err
				}
				n++
			}
			if n != 100 {
				return fmt.Errorf("%d runs", n)
			}
			return nil
		}, 3},
	} {
		before := server.Statements()
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got := server.Statements() - before; got != step.want {
			t.Errorf("%s: %d statements, want %d", step.what, got, step.want)
		}
	}
}

// Where the server does not wait for its disk by default, all but Delete do.
func TestDurable(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, &testenv.Options{Settings: map[string]string{"synchronous_commit": "off", "wal_writer_delay": "10s", "wal_writer_flush_after": "0"}})
	flushed := func() (all bool) {
		t.Helper()
		if err := p.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()").Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	lazy := 0
	for i := range 20 {
		r := run(fmt.Sprintf("s%d", i))
		_, err := s.Begin(t.Context(), r)
		if err != nil || !flushed() {
			t.Fatalf("Begin is not durable: %v", err)
		}
		r.Seq++
		if err := s.Save(t.Context(), r); err != nil || !flushed() {
			t.Fatalf("Save is not durable: %v", err)
		}
		r.Fence = lock.Fence{Epoch: 2, Nonce: "n"}
		if _, err := s.Adopt(t.Context(), r.Key, r.Fence, 3); err != nil || !flushed() {
			t.Fatalf("Adopt is not durable: %v", err)
		}
		if err := s.Delete(t.Context(), r.Key, r.ID, r.Fence); err != nil {
			t.Fatal(err)
		}
		if !flushed() {
			lazy++
		}
	}
	if lazy == 0 {
		t.Error("Delete waits for the disk, or this test cannot tell")
	}
}

// A save touches no index, with a payload of some KiB in its row.
func TestHeapOnly(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, nil) // beside others their snapshots would keep dead versions in the page
	const runs, saves = 20, 10
	for i := range runs {
		r := run(fmt.Sprintf("s%d", i))
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		for range saves {
			r.Seq++
			if err := s.Save(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var updates, hot int
	for deadline := time.Now().Add(20 * time.Second); updates < runs*saves && time.Now().Before(deadline); {
		for range p.Config().MaxConns { // each backend flushes its own counts
			if _, err := p.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.QueryRow(t.Context(), s.Fill("SELECT pg_stat_get_tuples_updated('{runs}'::regclass), pg_stat_get_tuples_hot_updated('{runs}'::regclass)")).Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updates < runs*saves || hot < updates*9/10 {
		t.Errorf("%d of %d updates were heap-only, of %d saves", hot, updates, runs*saves)
	}
}

// A server that dies in the middle costs an error, and the repeat tells what became of it.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server, _, s := private(t, nil)
	r := run("a")
	if _, err := s.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		server.Kill()
	}()
	var err error
	for err == nil {
		r.Seq++
		err = s.Save(t.Context(), r)
	}
	<-killed
	for _, verdict := range []error{lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrInvalid, snapshot.ErrSchema, snapshot.ErrParked} {
		if errors.Is(err, verdict) {
			t.Errorf("a dead server is reported as %v", err)
		}
	}
	server.Restart()
	for err = errors.New("not tried"); err != nil; { // until the pool has noticed which of its connections are dead
		if err = s.Save(t.Context(), r); errors.Is(err, lock.ErrFenced) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Adopt(t.Context(), r.Key, r.Fence, 3)
	if err != nil || got.Seq != r.Seq {
		t.Errorf("after the repeat the run is at %d, want %d: %v", got.Seq, r.Seq, err)
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	s := pgsnapshot.New(testenv.Postgres(t), &pgsnapshot.Options{Prefix: "none_"})
	r := run("a")
	_, begun := s.Begin(t.Context(), r)
	_, adopted := s.Adopt(t.Context(), r.Key, r.Fence, 1)
	for i, err := range []error{begun, adopted, s.Save(t.Context(), r), s.Delete(t.Context(), r.Key, r.ID, r.Fence)} {
		if !errors.Is(err, snapshot.ErrSchema) || !strings.Contains(err.Error(), "none_runs") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A run's id is its own: another session cannot begin it while it is in flight.
func TestForeignID(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	r := run("a")
	if _, err := s.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.Session = "b"
	if _, err := s.Begin(t.Context(), r); !errors.Is(err, snapshot.ErrInvalid) {
		t.Errorf("Begin of another session's run returns %v", err)
	}
}
