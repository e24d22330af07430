package pglocker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pglocker"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestPolling(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker { return pglocker.New(pool(t), nil) })
}

func TestListening(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker { return listening(t, nil) })
}

func TestOneConnection(t *testing.T) {
	t.Parallel()
	locktest.Run(t, func(t *testing.T) lock.Locker {
		return pglocker.New(pool(t, pgtest.OneConnection), nil)
	})
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.Behind {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, func(t *testing.T) lock.Locker { return pglocker.New(pool(t, configure), nil) })
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction uses another connection than the last one. Only the
// connection that wakes the waiters bypasses PgBouncer.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	pooler := testenv.StartPgBouncer(t, server)
	url, n := pooler.URL+"&pool_max_conns=16&default_query_exec_mode=cache_describe", 0
	p := pgtest.PoolOn(t, url)
	locktest.Run(t, func(t *testing.T) lock.Locker {
		n++
		return created(t, p, &pglocker.Options{Prefix: fmt.Sprintf("s%d_", n)})
	})
	t.Run("wakes", func(t *testing.T) {
		q := new(queue)
		o := &pglocker.Options{Poll: time.Minute, Listen: q.listen(t, server.URL)}
		l := created(t, pgtest.PoolOn(t, url, q.watch), o)
		if took := q.handOver(t, l); took > longestWait/2 {
			t.Errorf("woken after %v", took)
		}
	})
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("the locker leaves behind %q", left)
	}
}

// A role or a database may ask for transactions that see no concurrent change by default. The locker works there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, func(t *testing.T) lock.Locker {
				return pglocker.New(pool(t, pgtest.Isolation(level)), nil)
			})
		})
	}
}

// longestWait is when a waiter asks again although no notification came.
const longestWait = 5 * time.Second

// pool returns a pool on a fresh table.
func pool(tb testing.TB, configure ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	return pgtest.PoolWith(tb, schema(), configure...)
}

func schema() string { return pglocker.New(nil, nil).Schema() }

func created(t *testing.T, p *pgxpool.Pool, o *pglocker.Options) *pglocker.Locker {
	t.Helper()
	return pgtest.Create(t, p, pglocker.New(p, o))
}

func listening(tb testing.TB, o *pglocker.Options) *pglocker.Locker {
	tb.Helper()
	url := testenv.PostgresSchema(tb, schema())
	if o == nil {
		o = new(pglocker.Options)
	}
	o.Listen = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) }
	return pglocker.New(pgtest.PoolOn(tb, url), o)
}

// A waiter that listens gets the key within 20 ms of the unlock. The bound is on the median of many, because the
// machine does other things too. A waiter that is not woken needs seconds.
func TestWakes(t *testing.T) {
	q, url := new(queue), testenv.PostgresSchema(t, schema())
	l := pglocker.New(pgtest.PoolOn(t, url, q.watch), &pglocker.Options{Poll: time.Minute, Listen: q.listen(t, url)})
	var took []time.Duration
	for range 15 {
		took = append(took, q.handOver(t, l))
	}
	slices.Sort(took)
	if median := took[len(took)/2]; median > 20*time.Millisecond {
		t.Errorf("woken after %v, of %v", median, took)
	}
}

// A queue watches the connections of a locker. It finds the moment when a waiter can only wait to be woken.
type queue struct {
	mu        sync.Mutex // protects following fields
	listening bool
	// refused is called when a caller that asked since has been refused.
	refused func()
}

// handOver returns the time from an unlock until the waiter has the key.
func (q *queue) handOver(t *testing.T, l *pglocker.Locker) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, unlock, err := l.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{})
	q.mu.Lock()
	q.listening, q.refused = false, sync.OnceFunc(func() { close(waits) })
	q.mu.Unlock()
	granted := make(chan time.Time, 1)
	go func() {
		defer close(granted)
		_, unlock, err := l.Lock(ctx, "k")
		if err != nil {
			t.Error(err)
			return
		}
		granted <- time.Now()
		unlock()
	}()
	select {
	case <-waits:
	case <-ctx.Done():
		t.Fatal("nobody waits")
	}
	unlocked := time.Now()
	unlock()
	at, ok := <-granted
	if !ok {
		t.FailNow()
	}
	<-granted
	return at.Sub(unlocked)
}

func (q *queue) watch(c *pgxpool.Config) { c.ConnConfig.Tracer = q }

func (q *queue) listen(t *testing.T, url string) func(context.Context) (*pgx.Conn, error) {
	t.Helper()
	c, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	c.Tracer = q
	return func(ctx context.Context) (*pgx.Conn, error) { return pgx.ConnectConfig(ctx, c) }
}

type askedKey struct{}

func (q *queue) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.listening && strings.Contains(d.SQL, "INSERT") {
		return context.WithValue(ctx, askedKey{}, q.refused)
	}
	return ctx
}

func (q *queue) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryEndData) {
	if refused, ok := ctx.Value(askedKey{}).(func()); ok {
		refused()
	}
	if d.CommandTag.String() == "LISTEN" {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.listening = true
	}
}

// Another caller takes an expired lock. The first owner's context has ended by then.
func TestLostBeforeTaken(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	p := pgtest.PoolOn(t, server.URL)
	const ttl = 2 * time.Second
	l := pglocker.New(p, &pglocker.Options{TTL: ttl})
	if _, err := p.Exec(t.Context(), l.Schema()); err != nil {
		t.Fatal(err)
	}
	held, unlock, err := l.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	server.Stop()
	<-held.Done()
	if since := time.Since(start); !errors.Is(context.Cause(held), lock.ErrLost) || since > ttl {
		t.Errorf("held ended %v after the server stopped, with %v", since, context.Cause(held))
	}
	server.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other := pglocker.New(pgtest.PoolOn(t, server.URL), nil)
	_, unlockOther, err := other.Lock(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if _, _, err := other.TryLock(ctx, "k"); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("after the former holder unlocked, TryLock returns %v", err)
	}
	unlockOther()
}

// busyTTL is short for a test, and long enough for a renewal on a busy machine.
const busyTTL = 10 * time.Second

// An owner that renews keeps its lock for longer than its TTL. If the row is gone, the next renewal notices.
func TestRenews(t *testing.T) {
	t.Parallel()
	p := pool(t)
	l := pglocker.New(p, &pglocker.Options{TTL: busyTTL})
	held, unlock, err := l.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	for start := time.Now(); time.Since(start) < busyTTL*5/4; {
		<-time.After(10 * time.Millisecond)
		if _, _, err := l.TryLock(t.Context(), "k"); !errors.Is(err, lock.ErrHeld) {
			t.Fatalf("after %v TryLock returns %v", time.Since(start), err)
		}
	}
	if held.Err() != nil {
		t.Fatalf("held ended with %v", context.Cause(held))
	}
	if _, err := p.Exec(t.Context(), "DELETE FROM holdfast_locks"); err != nil {
		t.Fatal(err)
	}
	<-held.Done()
	if !errors.Is(context.Cause(held), lock.ErrLost) {
		t.Errorf("held ended with %v", context.Cause(held))
	}
}

// One statement of one goroutine renews a thousand locks.
func TestThousand(t *testing.T) { // not parallel: it counts goroutines
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	p := pgtest.PoolOn(t, server.URL)
	l := pglocker.New(p, &pglocker.Options{TTL: busyTTL})
	if _, err := p.Exec(t.Context(), l.Schema()); err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	var unlocks []func()
	var helds []context.Context
	for i := range 1000 {
		held, unlock, err := l.Lock(t.Context(), fmt.Sprintf("k%d", i))
		if err != nil {
			t.Fatal(err)
		}
		helds, unlocks = append(helds, held), append(unlocks, unlock)
	}
	if n := runtime.NumGoroutine() - before; n > 20 { // the pool has some
		t.Errorf("%d goroutines keep 1,000 locks", n)
	}
	statements := server.Statements()
	start := time.Now()
	for tick := time.Tick(200 * time.Millisecond); server.Statements()-statements < 3; <-tick {
		if time.Since(start) > 10*busyTTL {
			t.Fatalf("no renewals; the first lock ended with %v", context.Cause(helds[0]))
		}
	}
	if n := server.Statements() - statements; n > 10 {
		t.Errorf("%d statements in %v renew 1,000 locks", n, time.Since(start))
	}
	for _, held := range helds {
		if held.Err() != nil {
			t.Fatalf("held ended with %v", context.Cause(held))
		}
	}
	var wg sync.WaitGroup
	for _, unlock := range unlocks {
		wg.Go(unlock)
	}
	wg.Wait()
}

// If the connection that wakes waiters breaks, waiters poll until it is back.
func TestListenBreaks(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresSchema(t, schema())
	p := pgtest.PoolOn(t, url)
	l := pglocker.New(
		p,
		&pglocker.Options{Listen: func(context.Context) (*pgx.Conn, error) { return nil, errors.New("no such host") }},
	)
	_, unlock, err := l.Lock(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	granted := make(chan error)
	go func() {
		_, unlock, err := l.Lock(t.Context(), "k")
		if err == nil {
			unlock()
		}
		granted <- err
	}()
	unlock()
	if err := <-granted; err != nil {
		t.Error(err)
	}
}

func TestTableMissing(t *testing.T) {
	l := pglocker.New(testenv.Postgres(t), &pglocker.Options{Prefix: "none_"})
	if _, _, err := l.Lock(t.Context(), "k"); err == nil || errors.Is(err, lock.ErrHeld) {
		t.Errorf("without a table Lock returns %v", err)
	}
}
