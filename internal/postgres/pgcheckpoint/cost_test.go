package pgcheckpoint_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

func TestModel(t *testing.T) {
	faulttest.CheckpointModel(t, func(t *testing.T) checkpoint.Store { return open(t, nil) })
}

func TestSweepModel(t *testing.T) {
	faulttest.CheckpointSweepModel(t, func(t *testing.T, ttl time.Duration) checkpoint.Store {
		return open(t, &pgcheckpoint.Options{TTL: ttl})
	})
}

func TestUnsettledModel(t *testing.T) {
	faulttest.CheckpointUnsettledModel(t, func(t *testing.T, unsettled time.Duration) checkpoint.Store {
		return open(t, &pgcheckpoint.Options{Unsettled: unsettled})
	})
}

func TestHistories(t *testing.T) {
	faulttest.CheckpointHistories(t, func(t *testing.T) checkpoint.Store { return open(t, nil) }, faulttest.Histories())
}

func TestRenewUnderLoad(t *testing.T) {
	faulttest.RenewUnderLoad(t, func(t *testing.T) checkpoint.Store { return open(t, nil) }, 500)
}

// If one row is locked by another session, the other leases lose nothing but a moment. A lease that is lost is told.
func TestRenewLockedRow(t *testing.T) {
	t.Parallel()
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			renewLockedRow(t, o)
		})
	}
}

// byEither holds the options of stores that send statements, and of stores that call functions.
var byEither = map[string]pgcheckpoint.Options{"statements": {}, "functions": withFunctions}

func renewLockedRow(t *testing.T, o pgcheckpoint.Options) {
	p := testenv.Postgres(t)
	s := pgcheckpoint.New(p, &o)
	create(t, p, s)
	leases := make([]checkpoint.Lease, 500)
	for i := range leases {
		r := request()
		r.TTL = time.Millisecond
		c, err := s.Claim(t.Context(), key(fmt.Sprintf("s%d", i)), r)
		if err != nil {
			t.Fatal(err)
		}
		leases[i] = c.Lease
	}
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	if _, err := tx.Exec(t.Context(), s.Fill("SELECT FROM {sessions} WHERE session = 's250' FOR UPDATE")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Delete(ctx, leases[400]); err != nil {
		t.Fatal(err)
	}
	lost, err := s.Renew(ctx, 10*time.Minute, leases)
	if err == nil || !slices.Equal(lost, leases[400:401]) || ctx.Err() != nil {
		t.Fatalf("with one row locked Renew lost %v and returns %v", lost, err)
	}
	for i := range leases {
		if i == 250 || i == 400 {
			continue
		}
		if _, err := s.Claim(t.Context(), key(fmt.Sprintf("s%d", i)), request()); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("lease %d was not renewed: %v", i, err)
		}
	}
}

// The cost of a turn, counted at the server.
func TestStatements(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	var c checkpoint.Claimed
	n := 0
	take := func(from lock.Fence) (err error) {
		r := request()
		r.From = from
		c, err = s.Claim(t.Context(), key("a"), r)
		return err
	}
	refuse := func(session string, from lock.Fence, owner string) error {
		r := request()
		r.From = from
		_, err := s.Claim(t.Context(), key(session), r)
		if held, ok := errors.AsType[*checkpoint.HeldError](err); !ok || held.Owner != owner {
			return fmt.Errorf("a claim that should be refused returns %w", err)
		}
		return nil
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", func() error { _, err := s.Held(t.Context(), "bot", []string{"a"}); return err }, 2},
		{"first claim", func() error { return take(lock.Fence{}) }, 5},
		{"claim from an owner, with the newest turn", func() error { return take(c.Fence) }, 2},
		{"claim that is refused", func() error { return refuse("a", lock.Fence{}, "test") }, 2},
		{"claim from a former owner", func() error { return refuse("a", lock.Fence{Epoch: 1, Nonce: "n"}, "test") }, 2},
		{"claim of no session from an owner", func() error { return refuse("b", lock.Fence{Epoch: 1, Nonce: "n"}, "") }, 2},
		{"append", func() error { n++; return s.Append(t.Context(), c.Lease, turn(n-1), checkpoint.AppendOptions{}) }, 1},
		{"mark", func() error { return s.Mark(t.Context(), c.Lease, checkpoint.Marks{Summarized: 1}) }, 1},
		{"load", func() error { _, err := checkpoint.Load(t.Context(), s, key("a"), checkpoint.Newest); return err }, 1},
		{"head", func() error { _, err := s.Head(t.Context(), key("a")); return err }, 1},
		{"repeated append", func() error { return s.Append(t.Context(), c.Lease, turn(n-1), checkpoint.AppendOptions{}) }, 2},
		{"delete", func() error { return s.Delete(t.Context(), c.Lease) }, 3},
		{"repeated delete", func() error { return s.Delete(t.Context(), c.Lease) }, 3},
		{"nothing", func() error { return nil }, 0},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// If the server knows nothing of the tables, as before the first ANALYZE or after an upgrade of the server, a turn
// reads no more of a long session than it has to.
func TestNoStatistics(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection) // it plans while there are few rows, and keeps its plans
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	big := json.RawMessage(`"` + rand.Text() + strings.Repeat(rand.Text(), 100) + `"`)
	n := 0
	settle := func(session string, turns int) {
		for range turns {
			r := request()
			r.RequestID = fmt.Sprintf("request %d", n)
			c, err := s.Claim(t.Context(), key(session), r)
			if err != nil {
				t.Fatal(err)
			}
			cp := turn(0)
			if c.Last != nil {
				cp = turn(c.Last.Turn + 1)
			}
			cp.RequestID, cp.State = r.RequestID, big
			if err := s.Append(
				t.Context(), c.Lease, cp, checkpoint.AppendOptions{Keep: 200, Release: true},
			); err != nil {
				t.Fatal(err)
			}
			n++
		}
	}
	for i := range 30 {
		settle(fmt.Sprintf("s%d", i), 20)
	}
	settle("long", 250)
	for _, known := range []string{"nothing", "statistics"} {
		before := server.Blocks()
		settle("long", 50)
		if got := (server.Blocks() - before) / 50; got > 40 {
			t.Errorf("with %s known a turn touches %d blocks of the tables", known, got)
		} else {
			t.Logf("with %s known: %d blocks a turn", known, got)
		}
		if _, err := p.Exec(t.Context(), "ANALYZE"); err != nil {
			t.Fatal(err)
		}
	}
}

// To learn why an Append was refused costs a few pages, however many turns are kept. The run of a repeat is found,
// however long ago it was settled.
func TestExplain(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	const turns = 5000
	old := claim(t, s, "a").Lease
	pgtest.Exec(t, p, s.Fill(`
		INSERT INTO {turns} (orchestrator, session, turn, state, signature, version, run_id)
		SELECT 'bot', 'a', n, to_jsonb(array(SELECT md5(n::text || i) FROM generate_series(1, 100) i)), '', '', 'r' || n
		FROM generate_series(0, $1::integer - 1) n`), turns)
	pgtest.Exec(t, p, s.Fill("UPDATE {sessions} SET turn = $1::integer - 1"), turns)
	claim(t, s, "a")
	appending := func(n int, run string) error {
		cp := turn(n)
		cp.RunID = run
		return s.Append(t.Context(), old, cp, checkpoint.AppendOptions{})
	}
	for _, c := range []struct {
		n    int
		run  string
		want error
		most int64
	}{
		{turns, "new", lock.ErrFenced, 200},
		{turns - 50, "r" + fmt.Sprint(turns-50), nil, 200},
		{turns, "r" + fmt.Sprint(turns-50), nil, 200},
		{10, "r10", nil, 1000_000},
	} {
		before := server.Blocks()
		if err := appending(c.n, c.run); !errors.Is(err, c.want) {
			t.Errorf("turn %d, run %s: %v, want %v", c.n, c.run, err, c.want)
		}
		if got := server.Blocks() - before; got > c.most {
			t.Errorf("turn %d, run %s: %d blocks, want at most %d", c.n, c.run, got, c.most)
		} else {
			t.Logf("turn %d, run %s: %d blocks", c.n, c.run, got)
		}
	}
}

// If the server does not wait for its disk by default, a settle and the first claim of a session still do. The server
// writes to its log for itself now and then, so that one round alone proves nothing.
func TestDurable(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Settings: pgtest.Lazy()})
	p := pgtest.PoolOn(t, server.URL)
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			o.Prefix = name + "_"
			s := pgcheckpoint.New(p, &o)
			create(t, p, s)
			durable(t, p, s)
		})
	}
}

func durable(t *testing.T, p *pgxpool.Pool, s *pgcheckpoint.Store) {
	const rounds, givenBack = 20, "a claim of what was given back"
	lazy := make(map[string]int)
	flushed := func(what string, f func()) {
		var all bool
		f()
		const flushed = "SELECT pg_current_wal_insert_lsn() <= pg_current_wal_flush_lsn()"
		if err := p.QueryRow(t.Context(), flushed).Scan(&all); err != nil {
			t.Fatal(err)
		}
		if !all {
			lazy[what]++
		}
	}
	for i := range rounds {
		session := fmt.Sprintf("s%d", i)
		var l checkpoint.Lease
		flushed("the first claim of a session", func() { l = claim(t, s, session).Lease })
		flushed("a settle", func() {
			if err := s.Append(t.Context(), l, turn(0), checkpoint.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		flushed("a claim that takes the session from its owner", func() { l = claim(t, s, session).Lease })
		if err := s.Mark(t.Context(), l, checkpoint.Marks{Release: true}); err != nil {
			t.Fatal(err)
		}
		const flush = "BEGIN; SET LOCAL synchronous_commit = on; " +
			"CREATE TABLE IF NOT EXISTS flush (n int); INSERT INTO flush VALUES (1); COMMIT"
		if _, err := p.Exec(t.Context(), flush); err != nil {
			t.Fatal(err)
		}
		flushed(givenBack, func() { claim(t, s, session) })
	}
	if lazy[givenBack] < rounds/2 {
		t.Error("claims of what was given back wait for the disk, or this test cannot tell")
	}
	delete(lazy, givenBack)
	for what, n := range lazy {
		if n > rounds/4 {
			t.Errorf("%s is not durable on return: %d times of %d", what, n, rounds)
		}
	}
}

// A settle without a reply to deliver touches no index of the head. Nor does a failed delivery.
func TestHeapOnly(t *testing.T) {
	t.Parallel()
	// Beside other tests, their snapshots would keep dead versions in the page.
	server := testenv.StartPostgres(t, nil)
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection) // its statistics are flushed by its own session
	s := pgcheckpoint.New(p, nil)
	create(t, p, s)
	const turns, retries = 200, 200
	for n := range turns {
		l := claim(t, s, "a").Lease
		if err := s.Append(t.Context(), l, turn(n), checkpoint.AppendOptions{Keep: 5, Release: true}); err != nil {
			t.Fatal(err)
		}
	}
	l := claim(t, s, "a").Lease
	if err := s.Append(t.Context(), l, turn(turns), checkpoint.AppendOptions{Keep: 5, Owes: true}); err != nil {
		t.Fatal(err)
	}
	for range retries {
		if err := s.Mark(t.Context(), l, checkpoint.Marks{Retry: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	const all = 2*turns - 1 + 2 + retries
	var updates, hot int
	for deadline := time.Now().Add(10 * time.Second); updates < all && time.Now().Before(deadline); {
		testenv.FlushStatistics(t, p)
		if err := p.QueryRow(t.Context(), s.Fill(`SELECT pg_stat_get_tuples_updated('{sessions}'::regclass), pg_stat_get_tuples_hot_updated('{sessions}'::regclass)`)).Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
	}
	if updates < all || hot < updates*95/100 {
		t.Errorf("%d of %d updates of the head were heap-only, of %d", hot, updates, all)
	}
}

// The lock lets every caller in, and the histories stay right: safety needs no lock.
func TestHistoriesBehindEverybody(t *testing.T) {
	faulttest.HistoriesBehindEverybody(t, func(t *testing.T) checkpoint.Store { return open(t, nil) })
}
