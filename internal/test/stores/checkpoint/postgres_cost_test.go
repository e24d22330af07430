package checkpoint_test

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

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgstate"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
)

// counted returns a store on a server of its own that counts.
func counted(
	t *testing.T, o pgcheckpoint.Options, settings map[string]string, configure ...func(*pgxpool.Config),
) (*testenv.Server, pg) {
	t.Helper()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: settings})
	return server, pgOn(t, pgtest.PoolOn(t, server.URL, configure...), o)
}

// The cost of a turn, counted at the server.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, s := counted(t, pgcheckpoint.Options{}, nil)
	ctx := t.Context()
	var c checkpoint.Claimed
	n := 0
	take := func(from lock.Fence) (err error) {
		r := request()
		r.From = from
		c, err = s.Claim(ctx, key("a"), r)
		return err
	}
	refuse := func(session string, from lock.Fence, owner string) error {
		r := request()
		r.From = from
		_, err := s.Claim(ctx, key(session), r)
		if held, ok := errors.AsType[*checkpoint.HeldError](err); !ok || held.Owner != owner {
			return fmt.Errorf("a claim that should be refused returns %w", err)
		}
		return nil
	}
	call := func(name string) func() error { return func() error { return calls[name](ctx, s, c.Lease) } }
	labeled := checkpoint.AppendOptions{Relabel: true, Labels: []checkpoint.Label{{Name: "a"}, {Name: "b"}}}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a store", func() error { return calls["Held"](ctx, s, stranger) }, 2},
		{"first claim", func() error { return take(lock.Fence{}) }, 5},
		{"claim from an owner, with the newest turn", func() error { return take(c.Fence) }, 2},
		{"claim that is refused", func() error { return refuse("a", lock.Fence{}, "test") }, 2},
		{"claim from a former owner", func() error { return refuse("a", stranger.Fence, "test") }, 2},
		{"claim of no session from an owner", func() error { return refuse("b", stranger.Fence, "") }, 2},
		{"append", func() error { n++; return s.Append(ctx, c.Lease, turn(n-1), none) }, 1},
		{"append with labels", func() error { n++; return s.Append(ctx, c.Lease, turn(n-1), labeled) }, 1},
		{"mark", func() error { return s.Mark(ctx, c.Lease, checkpoint.Marks{Summarized: 1}) }, 1},
		{"load", call("Newest"), 1},
		{"head", call("Head"), 1},
		{"repeated append", func() error { return s.Append(ctx, c.Lease, turn(n-1), none) }, 2},
		{"delete", call("Delete"), 3},
		{"repeated delete", call("Delete"), 3},
		{"nothing", func() error { return nil }, 0},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// If the server knows nothing of the tables, as before the first ANALYZE or after an upgrade of the server, a turn
// reads no more of a long session than it has to. A connection and a function keep the plans that they have made while
// there were few rows.
func TestPostgresNoStatistics(t *testing.T) {
	either(t, func(t *testing.T, o pgcheckpoint.Options) {
		server, s := counted(t, o, map[string]string{"autovacuum": "off"}, pgtest.OneConnection)
		big := json.RawMessage(`"` + rand.Text() + strings.Repeat(rand.Text(), 100) + `"`)
		asked := 0
		settle := func(session string, turns int) {
			for range turns {
				asked++
				r := request()
				r.RequestID = fmt.Sprint("asked ", asked)
				c := must[checkpoint.Claimed](t)(s.Claim(t.Context(), key(session), r))
				cp := turn(0)
				if c.Last != nil {
					cp = turn(c.Last.Turn + 1)
				}
				cp.RequestID, cp.State = r.RequestID, big
				check(t, s.Append(t.Context(), c.Lease, cp, checkpoint.AppendOptions{Keep: 200, Release: true}))
			}
		}
		for i := range 30 {
			settle(fmt.Sprintf("s%d", i), 20)
		}
		settle("long", 250)
		for _, known := range []string{"nothing", "statistics"} {
			before := server.Blocks()
			settle("long", 50)
			got := (server.Blocks() - before) / 50
			if t.Logf("with %s known: %d blocks a turn", known, got); got > 40 {
				t.Errorf("with %s known a turn touches %d blocks of the tables", known, got)
			}
			s.exec(t, "ANALYZE")
		}
	})
}

// To learn why an Append was refused costs a few pages, however many turns are kept. The run of a repeat is found,
// however long ago it was settled.
func TestPostgresExplain(t *testing.T) {
	t.Parallel()
	server, s := counted(t, pgcheckpoint.Options{}, nil, pgtest.OneConnection)
	const turns = 5000
	old := claim(t, s, "a").Lease
	s.exec(t, `
		INSERT INTO {turns} (orchestrator, session, turn, state, signature, version, run_id)
		SELECT 'bot', 'a', n, to_jsonb(array(SELECT md5(n::text || i) FROM generate_series(1, 100) i)), '', '', 'r' || n
		FROM generate_series(0, $1::integer - 1) n`, turns)
	s.exec(t, "UPDATE {sessions} SET turn = $1::integer - 1", turns)
	claim(t, s, "a")
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
		cp := turn(c.n)
		cp.RunID = c.run
		before := server.Blocks()
		if err := s.Append(t.Context(), old, cp, none); !errors.Is(err, c.want) {
			t.Errorf("turn %d, run %s: %v, want %v", c.n, c.run, err, c.want)
		}
		got := server.Blocks() - before
		if t.Logf("turn %d, run %s: %d blocks", c.n, c.run, got); got > c.most {
			t.Errorf("turn %d, run %s: %d blocks, want at most %d", c.n, c.run, got, c.most)
		}
	}
}

// If the server does not wait for its disk by default, a settle and the first claim of a session still do. The server
// writes to its log for itself now and then, so that one round alone proves nothing.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Settings: pgtest.Lazy()})
	p := pgtest.PoolOn(t, server.URL)
	for name, o := range byEither {
		t.Run(name, func(t *testing.T) {
			o.Prefix = name + "_"
			durable(t, pgOn(t, p, o))
		})
	}
}

func durable(t *testing.T, s pg) {
	const rounds, givenBack = 20, "a claim of what was given back"
	lazy := make(map[string]int)
	flushed := func(what string, f func()) {
		f()
		if pgtest.Unflushed(t, s.pool) > 0 {
			lazy[what]++
		}
	}
	for i := range rounds {
		session := fmt.Sprintf("s%d", i)
		var l checkpoint.Lease
		flushed("the first claim of a session", func() { l = claim(t, s, session).Lease })
		flushed("a settle", func() { settle(t, s, l, none, 0) })
		flushed("a claim that takes the session from its owner", func() { l = claim(t, s, session).Lease })
		mark(t, s, l, release)
		pgtest.Exec(t, s.pool, "BEGIN; SET LOCAL synchronous_commit = on; "+
			"CREATE TABLE IF NOT EXISTS flush (n int); INSERT INTO flush VALUES (1); COMMIT")
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
func TestPostgresHeapOnly(t *testing.T) {
	t.Parallel()
	// Beside other tests, their snapshots would keep dead versions in the page. Its session flushes its own statistics.
	p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL, pgtest.OneConnection)
	s := pgOn(t, p, pgcheckpoint.Options{})
	const turns, retries = 200, 200
	for n := range turns { // the first turn labels the session, and the labels stay
		o := checkpoint.AppendOptions{Keep: 5, Release: true, Relabel: n == 0}
		if o.Relabel {
			o.Labels = []checkpoint.Label{{Name: "user"}, {Name: "wait", At: time.Now()}}
		}
		settle(t, s, claim(t, s, "a").Lease, o, n)
	}
	l := claim(t, s, "a").Lease
	settle(t, s, l, checkpoint.AppendOptions{Keep: 5, Owes: true}, turns)
	for range retries {
		mark(t, s, l, checkpoint.Marks{Retry: time.Minute})
	}
	const all = 2*turns - 1 + 2 + retries
	var updates, hot int
	for deadline := time.Now().Add(time.Minute); updates < all && time.Now().Before(deadline); {
		testenv.FlushStatistics(t, p)
		check(t, p.QueryRow(t.Context(), s.Fill(`SELECT pg_stat_get_tuples_updated('{sessions}'::regclass),
			pg_stat_get_tuples_hot_updated('{sessions}'::regclass)`)).Scan(&updates, &hot))
	}
	if updates < all || hot < updates*95/100 {
		t.Errorf("%d of %d updates of the head were heap-only, of %d", hot, updates, all)
	}
}

// If one row is locked by another session, the other leases lose nothing but a moment. A lease that is lost is told.
func TestPostgresRenewLockedRow(t *testing.T) {
	either(t, func(t *testing.T, o pgcheckpoint.Options) {
		s := newPG(t, o)
		leases := make([]checkpoint.Lease, 500)
		for i := range leases {
			leases[i] = claimFor(t, s, fmt.Sprintf("s%d", i), time.Millisecond).Lease
		}
		s.lock(t, "SELECT FROM {sessions} WHERE session = 's250' FOR UPDATE")
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		check(t, s.Delete(ctx, leases[400]))
		lost, err := s.Renew(ctx, 10*time.Minute, leases)
		if err == nil || !slices.Equal(lost, leases[400:401]) || ctx.Err() != nil {
			t.Fatalf("with one row locked Renew lost %v and returns %v", lost, err)
		}
		for i := range leases {
			if i == 250 || i == 400 {
				continue
			}
			if _, err := s.Claim(t.Context(), leases[i].Key, request()); !errors.Is(err, lock.ErrHeld) {
				t.Fatalf("lease %d was not renewed: %v", i, err)
			}
		}
	})
}

// lock begins a transaction with a statement. It ends with the test.
func (s pg) lock(t *testing.T, sql string) pgx.Tx {
	t.Helper()
	tx := must[pgx.Tx](t)(s.pool.Begin(t.Context()))
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err := tx.Exec(t.Context(), s.Fill(sql))
	check(t, err)
	return tx
}

// A store on one connection goes on after a failed call.
func TestIsolationOneConnection(t *testing.T) {
	t.Parallel()
	s := newPG(t, pgcheckpoint.Options{}, pgtest.Isolation("serializable"))
	conn := must[*pgxpool.Conn](t)(s.pool.Acquire(t.Context()))
	defer conn.Release()
	bare := pgcheckpoint.New(conn.Conn(), nil)
	leases := []checkpoint.Lease{claimFor(t, s, "a", time.Millisecond).Lease}
	tx := s.lock(t, "UPDATE {sessions} SET owner = 'x'")
	met := make(chan error, 1)
	go func() {
		var err error
		for ok := true; ok; ok = pgstate.Of(err) == pgstate.LockNotAvailable { // the machine may be slow to commit
			_, err = bare.Renew(t.Context(), time.Hour, leases)
		}
		met <- err
	}()
	pgtest.AwaitBlocked(t, s.pool, tx)
	check(t, tx.Commit(t.Context()))
	check(t, <-met)
	tx = s.lock(t, "SELECT FROM {sessions} FOR UPDATE")
	if _, err := bare.Renew(t.Context(), time.Second, leases); pgstate.Of(err) != pgstate.LockNotAvailable {
		t.Errorf("a renewal of a locked row returns %v", err)
	}
	check(t, tx.Rollback(t.Context()))
	if lost, err := bare.Renew(t.Context(), time.Hour, leases); err != nil || len(lost) > 0 {
		t.Errorf("after a call that failed, Renew returns %v, %v", lost, err)
	}
}
