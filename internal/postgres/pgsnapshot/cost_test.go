package pgsnapshot_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

func newStore(t *testing.T) snapshot.Store { return open(t, nil, nil) }

func TestModel(t *testing.T) { faulttest.SnapshotModel(t, newStore) }

func TestRacingBegins(t *testing.T) { faulttest.RacingBegins(t, newStore, 10_000) }

func run(session string) snapshot.Run {
	return snapshot.Run{
		Key: snapshot.Key{Orchestrator: "bot", Session: session}, ID: "run-of-" + session, Attempt: 1,
		Status: snapshot.Running, Fence: lock.Fence{Epoch: 1, Nonce: "n"},
		Payload: json.RawMessage(`{"text":"` + strings.Repeat("Where is my order? ", 200) + `"}`),
	}
}

// private returns a store on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgsnapshot.Store) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := pgtest.PoolOn(t, server.URL)
	return server, p, create(t, p, nil)
}

// adding returns a Save which adds a part to r.
func adding(r snapshot.Run, part string) snapshot.Run {
	r.Seq++
	r.Payload, r.Parts = nil, map[string]json.RawMessage{part: json.RawMessage(`"text"`)}
	return r
}

// saving returns a Save which replaces the payload of r.
func saving(r snapshot.Run) snapshot.Run {
	r.Seq++
	return r
}

// The test counts at the server what each call costs.
func TestStatements(t *testing.T) {
	t.Parallel()
	server, _, s := private(t, &testenv.Options{Count: true})
	f := lock.Fence{Epoch: 2, Nonce: "m"}
	r, second := run("a"), run("a")
	second.Fence = lock.Fence{Epoch: 3, Nonce: "m"}
	second.ID = "second"
	begin := func(r snapshot.Run, found bool) error {
		in, err := s.Begin(t.Context(), r)
		if found != (in != nil) {
			return fmt.Errorf("begin finds %v: %w", in, err)
		}
		return err
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", func() error { _, err := s.Sweep(t.Context(), 0); return err }, 2},
		{"first begin of a session", func() error { return begin(r, false) }, 2},
		{"begin that finds a run", func() error { return begin(r, true) }, 3},
		{"save", func() error { return s.Save(t.Context(), saving(r)) }, 1},
		{"adopt", func() error { _, err := s.Adopt(t.Context(), r.Key, f, 3); return err }, 1},
		{"delete", func() error { return s.Delete(t.Context(), r.Key, r.ID, f) }, 1},
		{"late begin", func() error {
			if err := begin(r, false); !errors.Is(err, lock.ErrFenced) {
				return fmt.Errorf("a late begin returns %w", err)
			}
			return nil
		}, 4},
		{"begin of another run", func() error { return begin(second, false) }, 1},
		{"save of a part", func() error { return s.Save(t.Context(), adding(second, "one")) }, 1},
		{"adopt of a run with a part", func() error { _, err := s.Adopt(t.Context(), second.Key, second.Fence, 3); return err }, 3},
		{"save that drops the part", func() error { return s.Save(t.Context(), saving(saving(second))) }, 2},
		{"delete of a run that had a part", func() error { return s.Delete(t.Context(), second.Key, second.ID, second.Fence) }, 2},
		{"sweep", func() error { _, err := s.Sweep(t.Context(), 0); return err }, 1},
		{"nothing", func() error { return nil }, 0},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// The cost of a list grows with the runs in flight, not with the sessions without a run. PostgreSQL need not have
// statistics of either.
func TestListing(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pgsnapshot.New(p, nil)
	if _, err := p.Exec(t.Context(), s.Fill(`
		INSERT INTO {runs} (orchestrator, session, epoch, nonce, found, id, status, seq, turn, attempt, parts, payload_version,
			started_at, saved_at, deleted_at, request_id, base, error)
		SELECT 'bot', 's' || i, 1, 'n', 0, 'run', 'deleted', 1, 1, 1, false, 1, now(), now(), now(), '', '', ''
		FROM generate_series(0, 99999) i`)); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		r := run(fmt.Sprintf("s%d", 1000*i))
		r.Fence.Epoch = 2
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	list := func() (n int) {
		for _, err := range s.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset() // plans are made anew
		touched := server.Blocks()
		statements := server.Statements()
		n := list()
		statements = server.Statements() - statements
		if touched = server.Blocks() - touched; n != 100 || statements != 3 || touched > 400 {
			t.Errorf("with %s known a list of %d runs takes %d statements, want 3, and touches %d blocks",
				known, n, statements, touched)
		} else {
			t.Logf("with %s known: %d blocks", known, touched)
		}
		if _, err := p.Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
}

// The cost of a list for a drain does not grow with the runs that wait for a person. PostgreSQL need not have
// statistics of them, and a plan that was made before there were any serves.
func TestUnattendedListing(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pgsnapshot.New(p, nil)
	list := func(q snapshot.Query) (n int) {
		q.Orchestrator, q.Brief = "bot", true
		for _, err := range s.Runs(t.Context(), q) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	queries := []snapshot.Query{{Unattended: true}, {Status: snapshot.Waiting}}
	for range 10 { // the server keeps a plan after some calls
		list(queries[0])
		list(queries[1])
	}
	if _, err := p.Exec(t.Context(), s.Fill(`
		INSERT INTO {runs} (orchestrator, session, epoch, nonce, found, id, status, seq, turn, attempt, parts, payload_version,
			started_at, saved_at, request_id, base, error, payload)
		SELECT 'bot', 's' || i, 1, 'n', 0, 'run', CASE i % 1000 WHEN 0 THEN 'waiting' ELSE 'suspended' END, 1, 1, 1, false,
			1, now(), now(), '', '', '', '{}'
		FROM generate_series(1, 10000) i`)); err != nil {
		t.Fatal(err)
	}
	for _, known := range []string{"a plan of before", "nothing", "statistics"} {
		for _, q := range queries {
			touched, statements := server.Blocks(), server.Statements()
			n := list(q)
			statements = server.Statements() - statements
			if touched = server.Blocks() - touched; n != 10 || statements != 1 || touched > 100 {
				t.Errorf("with %s a list of %+v has %d runs, takes %d statements, want 1, and touches %d blocks",
					known, q, n, statements, touched)
			} else {
				t.Logf("with %s: %d blocks for %+v", known, touched, q)
			}
		}
		if known == "nothing" {
			if _, err := p.Exec(t.Context(), "ANALYZE"); err != nil {
				t.Fatal(err)
			}
		}
		p.Reset() // plans are made anew
	}
}

// If the server does not wait for its disk by default, all calls but Delete do. Now and then the server writes to its
// log for itself, so one round alone proves nothing.
func TestDurable(t *testing.T) {
	t.Parallel()
	_, p, _ := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			o.Prefix = name + "_"
			durable(t, p, create(t, p, &o))
		})
	}
}

func durable(t *testing.T, p *pgxpool.Pool, s *pgsnapshot.Store) {
	const rounds = 20
	lazy := make(map[string]int)
	flushed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if pgtest.Unflushed(t, p) > 0 {
			lazy[what]++
		}
	}
	for i := range rounds {
		r := run(fmt.Sprintf("s%d", i%10)) // half of them begin in place of a deleted run
		r.Fence.Epoch = int64(3*i + 1)
		_, err := s.Begin(t.Context(), r)
		flushed("Begin", err)
		r = saving(r)
		flushed("Save", s.Save(t.Context(), r))
		flushed("Save of a part", s.Save(t.Context(), adding(r, "one")))
		r.Fence.Epoch++
		_, err = s.Adopt(t.Context(), r.Key, r.Fence, 3)
		flushed("Adopt", err)
		flushed("Delete", s.Delete(t.Context(), r.Key, r.ID, r.Fence))
		r.Fence.Epoch++
		if _, err = s.Adopt(t.Context(), r.Key, r.Fence, 3); errors.Is(err, snapshot.ErrNotFound) {
			err = nil
		}
		flushed("Adopt that finds no run", err)
	}
	if lazy["Delete"] < rounds/2 {
		t.Error("Delete waits for the disk, or this test cannot tell")
	}
	delete(lazy, "Delete")
	for what, n := range lazy {
		if n > rounds/4 {
			t.Errorf("%s is not durable: %d times of %d", what, n, rounds)
		}
	}
}

// A save touches no index, with a payload of some KiB in its row. This holds for a session that had runs before, and
// beside other sessions on its page.
func TestHeapOnly(t *testing.T) {
	t.Parallel()
	// The server is private: the snapshots of other sessions would keep dead versions in the page.
	server, _, _ := private(t, nil)
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pgsnapshot.New(p, nil)
	const sessions, turns, saves = 20, 3, 10
	for turn := range turns {
		for i := range sessions {
			r := run(fmt.Sprintf("s%d", i))
			r.Fence.Epoch = int64(turn + 1)
			payload := r.Payload
			r.Payload = json.RawMessage(`{"input":"text"}`)
			if _, err := s.Begin(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			r.Payload = payload
			for range saves {
				r = saving(r)
				if err := s.Save(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Delete(t.Context(), r.Key, r.ID, r.Fence); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The first Begin of a session inserts. Other Begins and all Deletes update deleted_at, which the index of the runs
	// in flight depends on.
	const all, others = sessions * (turns*(saves+1) + turns - 1), sessions * (2*turns - 1)
	const counts = `
		SELECT pg_stat_get_tuples_updated('{runs}'::regclass), pg_stat_get_tuples_hot_updated('{runs}'::regclass)`
	var updates, hot int
	for deadline := time.Now().Add(20 * time.Second); updates < all && time.Now().Before(deadline); {
		testenv.FlushStatistics(t, p)
		if err := p.QueryRow(t.Context(), s.Fill(counts)).Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updates != all || hot < (all-others)*9/10 {
		t.Errorf("%d of %d updates were heap-only, of %d saves", hot, updates, all-others)
	} else {
		t.Logf("%d of %d updates were heap-only, of %d saves", hot, updates, all-others)
	}
}

// A save without a payload writes the same amount for payloads of all sizes, in the row or out of it.
func TestPayloadIsNotRewritten(t *testing.T) {
	t.Parallel()
	for _, size := range []int{3 << 10, 1 << 20} {
		_, p, s := private(t, &testenv.Options{Settings: map[string]string{
			"autovacuum": "off", "full_page_writes": "off",
		}})
		r := run("a")
		r.Payload = json.RawMessage(`"` + incompressible(size) + `"`)
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		const saves = 50
		before := logged(t, p)
		for range saves {
			r = adding(r, fmt.Sprintf("part-%d", r.Seq))
			if err := s.Save(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		if each := (logged(t, p) - before) / saves; each > 1500 {
			t.Errorf("beside a payload of %d bytes a save of a part writes %d bytes to the log", size, each)
		} else {
			t.Logf("%d bytes beside a payload of %d", each, size)
		}
	}
}

func incompressible(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(rand.Text())
	}
	return b.String()
}

// logged returns how many bytes the log has.
func logged(t *testing.T, p *pgxpool.Pool) (bytes int64) {
	t.Helper()
	if err := p.QueryRow(t.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Parts that are not read any more are removed: by the next Save with a payload, by Delete, or else by Sweep.
func TestPartsAreRemoved(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	tidy := create(t, p, &pgsnapshot.Options{Remember: time.Microsecond})
	wantParts := func(want ...string) {
		t.Helper()
		rows, err := p.Query(t.Context(), tidy.Fill("SELECT name FROM {run_parts} ORDER BY name"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || !slices.Equal(got, want) {
			t.Errorf("parts %q are there, want %q: %v", got, want, err)
		}
	}
	r := run("a")
	for _, s := range []*pgsnapshot.Store{tidy, tidy.Broken("clean", cleansNothing)} {
		r.Fence.Epoch, r.Parts = r.Fence.Epoch+1, map[string]json.RawMessage{"begun": json.RawMessage(`1`)}
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		saved := adding(r, "added")
		replaces := saving(saved)
		replaces.Payload, replaces.Parts = r.Payload, map[string]json.RawMessage{"replaced": json.RawMessage(`1`)}
		if err := errors.Join(s.Save(t.Context(), saved), s.Save(t.Context(), replaces)); err != nil {
			t.Fatal(err)
		}
		if s == tidy {
			wantParts("replaced")
		} else {
			wantParts("added", "begun", "replaced")
		}
		if err := s.Delete(t.Context(), r.Key, r.ID, r.Fence); err != nil {
			t.Fatal(err)
		}
		if s == tidy {
			wantParts()
			continue
		}
		for swept := 0; swept == 0; { // until the server's clock has moved on
			var err error
			if swept, err = s.Sweep(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		wantParts()
	}
}

// A server that dies in the middle of a call costs an error, and the repeat tells what became of the call.
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
	for _, verdict := range []error{
		lock.ErrFenced, snapshot.ErrNotFound, snapshot.ErrInvalid, snapshot.ErrSchema, snapshot.ErrParked,
	} {
		if errors.Is(err, verdict) {
			t.Errorf("a dead server is reported as %v", err)
		}
	}
	server.Restart()
	// The loop ends when the pool has noticed which of its connections are dead.
	for err = errors.New("not tried"); err != nil; {
		if err = s.Save(t.Context(), r); errors.Is(err, lock.ErrFenced) || t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Adopt(t.Context(), r.Key, r.Fence, 3)
	if err != nil || got.Seq != r.Seq {
		t.Errorf("after the repeat the run is at %d, want %d: %v", got.Seq, r.Seq, err)
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	_, p, s := private(t, nil)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	// A vacuum takes this lock. A writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_runs, holdfast_run_parts IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Exec(t.Context(), "SET statement_timeout = '5s'; "+s.Schema()); err != nil {
		t.Error(err)
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	s := pgsnapshot.New(testenv.Postgres(t), &pgsnapshot.Options{Prefix: "none_"})
	r := run("a")
	_, begun := s.Begin(t.Context(), r)
	_, adopted := s.Adopt(t.Context(), r.Key, r.Fence, 1)
	_, swept := s.Sweep(t.Context(), 0)
	saved, deleted := s.Save(t.Context(), r), s.Delete(t.Context(), r.Key, r.ID, r.Fence)
	for i, err := range []error{begun, adopted, swept, saved, deleted} {
		if !errors.Is(err, snapshot.ErrSchema) || !strings.Contains(err.Error(), "none_runs") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A standby that is taken for the primary writes nothing, and says that it is a standby.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := pgsnapshot.New(pgtest.Pool(t, func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}), nil)
	r := run("a")
	_, begun := s.Begin(t.Context(), r)
	_, adopted := s.Adopt(t.Context(), r.Key, r.Fence, 1)
	for i, err := range []error{begun, adopted, s.Save(t.Context(), r), s.Delete(t.Context(), r.Key, r.ID, r.Fence)} {
		if !errors.Is(err, snapshot.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}
