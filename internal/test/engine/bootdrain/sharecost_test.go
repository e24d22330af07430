package bootdrain_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An act is what a process asks of its stores: to be the watcher, a pass, or a look at the beats.
type act struct {
	child string
	ask   bool
	d     time.Duration // the time asked for
	all   bool
	look  bool
}

// An actor is a member that notes its acts.
type actor struct {
	member
	engine *bot   // on stores of its own; it decides when to look at the beats
	acts   *[]act // protected by the fleet's mu
}

func newActor(t *testing.T, m member, acts *[]act) actor {
	a := actor{member: m, acts: acts}
	b, err := opened{
		checkpoints: lookNoter{actor: a, Memory: new(checkpoint.Memory)}, snapshots: new(snapshot.Memory),
	}.bot(nil)
	if err != nil {
		t.Fatal(err)
	}
	a.engine = b
	return a
}

func (a actor) note(done act) {
	a.mu.Lock()
	defer a.mu.Unlock()
	done.child = a.child
	*a.acts = append(*a.acts, done)
}

func (a actor) Watching(ctx context.Context, every, d time.Duration) (time.Duration, error) {
	a.note(act{ask: true, d: d})
	if _, err := a.engine.Watching(ctx, every, d); err != nil {
		return 0, err
	}
	return a.member.Watching(ctx, every, d)
}

func (a actor) Recoverable(ctx context.Context, all bool) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for session, err := range a.engine.Recoverable(ctx, all) {
			if !yield(session, err) {
				return
			}
		}
		a.member.Recoverable(ctx, all)(yield)
	}
}

// A lookNoter is a store that notes the looks of an actor at the beats.
type lookNoter struct {
	actor
	*checkpoint.Memory
}

func (n lookNoter) Beat(ctx context.Context, process string) (map[string]int64, error) {
	n.note(act{look: true})
	return n.Memory.Beat(ctx, process)
}

// acts returns the acts of processes for a while, with default settings.
func acts(t *testing.T, processes int, while time.Duration) (all []act) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+while)
		defer cancel()
		for i := range processes {
			a := newActor(t, f.member(i), &all)
			go func() { _ = bootdrain.Watch(ctx, a, &bootdrain.Options{Logger: quiet}) }()
		}
		time.Sleep(time.Minute)
		f.mu.Lock()
		all, f.looks = nil, nil
		f.mu.Unlock()
		time.Sleep(while - time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, l := range f.looks {
			all = append(all, act{child: l.child, all: l.all})
		}
	})
	return all
}

// liveSQL makes many sessions of the session "live 0", and many runs of its run.
const liveSQL = `
	INSERT INTO %[1]s SELECT another.* FROM %[1]s AS one, generate_series(1, $1::integer) AS i,
		jsonb_populate_record(one, jsonb_build_object('session', 'live ' || i)) AS another
	WHERE one.session = 'live 0'`

// live makes runs of 50 KB that have an owner.
func live(t *testing.T, p *pgxpool.Pool, runs int) {
	t.Helper()
	k := checkpoint.Key{Orchestrator: "support", Session: "live 0"}
	c, err := pgcheckpoint.New(p, nil).Claim(t.Context(), k,
		checkpoint.ClaimRequest{Owner: "o", Nonce: "n", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	var payload strings.Builder
	for payload.Len() < 50_000 {
		payload.WriteString(rand.Text())
	}
	if _, err := pgsnapshot.New(p, nil).Begin(t.Context(), snapshot.Run{
		Key: k, ID: rand.Text(), RequestID: rand.Text(), Status: snapshot.Running, Fence: c.Fence,
		Payload: json.RawMessage(`"` + payload.String() + `"`),
	}); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"holdfast_sessions", "holdfast_runs"} {
		if _, err := p.Exec(t.Context(), fmt.Sprintf(liveSQL, table), runs-1); err != nil {
			t.Fatal(err)
		}
	}
}

// A load is the work of a server for a while.
type load struct {
	statements, rows, blocks int64
	took                     time.Duration
	bytes                    int64 // sent by the server
}

func (l load) minus(before load) load {
	return load{
		l.statements - before.statements, l.rows - before.rows, l.blocks - before.blocks, l.took - before.took,
		l.bytes - before.bytes,
	}
}

// over returns the share of l that falls on one of n parts of the time.
func (l load) over(n int64) load {
	return load{l.statements / n, l.rows / n, l.blocks / n, l.took / time.Duration(n), l.bytes / n}
}

// loadSQL counts every statement of the server but itself.
const loadSQL = `
	SELECT coalesce(sum(calls), 0)::bigint, coalesce(sum(rows), 0)::bigint,
		coalesce(sum(shared_blks_hit + shared_blks_read), 0)::bigint, coalesce(sum(total_exec_time) * 1e6, 0)::bigint
	FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_statements%'`

// A meter measures the work of a server for the clients of its pools.
type meter struct {
	own   *pgxpool.Pool
	bytes atomic.Int64
}

func (m *meter) read(t *testing.T) (l load) {
	t.Helper()
	l.bytes = m.bytes.Load()
	if err := m.own.QueryRow(t.Context(), loadSQL).Scan(&l.statements, &l.rows, &l.blocks, &l.took); err != nil {
		t.Fatal(err)
	}
	return l
}

// pool returns a pool of one connection.
func (m *meter) pool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.MaxConns = 1
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return meteredConn{conn, &m.bytes}, err
	}
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

type meteredConn struct {
	net.Conn
	read *atomic.Int64
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// costOfWatching returns the work of a server in 20 s for processes that find no work, beside runs of 50 KB that other
// processes own. The processes do without a pause what they would do in 200 s.
func costOfWatching(t *testing.T, runs, processes int) load {
	const parts = 10
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	migrated(t, "pgx", server.URL, migrations.Postgres)
	m := new(meter)
	m.own = m.pool(t, server.URL)
	live(t, m.own, runs)
	if _, err := m.own.Exec(t.Context(), "VACUUM ANALYZE"); err != nil {
		t.Fatal(err)
	}
	bots, stores := make(map[string]*bot), make(map[string]*pgcheckpoint.Store)
	for i := range processes {
		p := m.pool(t, server.URL)
		store := pgcheckpoint.New(p, nil)
		w := opened{checkpoints: store, snapshots: pgsnapshot.New(p, nil), limits: limits}
		w.limits.DeadAfter = -1 // it looks at the beats when the plan says so
		b, err := w.bot(nil)
		if err != nil {
			t.Fatal(err)
		}
		bots[fmt.Sprint("p", i)], stores[fmt.Sprint("p", i)] = b, store
	}
	do := func(a act) {
		t.Helper()
		if a.look {
			if _, err := stores[a.child].Beat(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			return
		}
		if a.ask {
			if _, err := bots[a.child].Watching(t.Context(), 5*time.Second, a.d); err != nil {
				t.Fatal(err)
			}
			return
		}
		for session, err := range bots[a.child].Recoverable(t.Context(), a.all) {
			t.Fatalf("there is something to recover: %q, %v", session, err)
		}
	}
	// The first round prepares statements.
	for child := range bots {
		do(act{child: child, ask: true})
		do(act{child: child})
		do(act{child: child, all: true})
		do(act{child: child, look: true})
	}
	plan := acts(t, processes, parts*20*time.Second)
	before := m.read(t)
	for _, a := range plan {
		do(a)
	}
	got := m.read(t).minus(before).over(parts)
	t.Logf("%d processes beside %d live runs, in 20 s: %+v", processes, runs, got)
	return got
}

// The cost of a watch that finds no work: each statement that the server gets is counted, of each second too.
func TestCostOfWatching(t *testing.T) {
	t.Run("a process", func(t *testing.T) {
		t.Parallel()
		if got := costOfWatching(t, 300, 1); got.statements > 80 || got.bytes > 1<<20 {
			t.Errorf("in 20 s one process takes %d statements and is sent %d bytes", got.statements, got.bytes)
		}
	})
	t.Run("processes", func(t *testing.T) {
		t.Parallel()
		// Both make as many passes in the long run; TestWatchIsShared counts them.
		one, twenty := costOfWatching(t, 1000, 1), costOfWatching(t, 1000, 20)
		asks := twenty.statements - one.statements
		if twenty.blocks > one.blocks*13/10 || twenty.rows-asks > one.rows*13/10 || asks > 20*27 {
			t.Errorf("one process costs the server %+v, and twenty cost %+v", one, twenty)
		}
	})
}
