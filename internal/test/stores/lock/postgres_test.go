package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
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
		return pgtest.Create(t, p, pglocker.New(p, &pglocker.Options{Prefix: fmt.Sprintf("s%d_", n)}))
	})
	t.Run("wakes", func(t *testing.T) {
		q := new(queue)
		o := &pglocker.Options{Poll: time.Minute, Listen: q.listen(t, server.URL)}
		p := pgtest.PoolOn(t, url, q.watch)
		l := pgtest.Create(t, p, pglocker.New(p, o))
		took := q.handOver(t, l)
		for try := 0; try < 5 && took > longestWait/2; try++ { // the machine does other things too
			took = q.handOver(t, l)
		}
		if took > longestWait/2 {
			t.Errorf("woken after %v", took)
		}
	})
	if left := pooler.LeftBehind(); len(left) > 0 {
		t.Errorf("the locker leaves behind %q", left)
	}
}

// longestWait is when a waiter asks again although no notification came.
const longestWait = 5 * time.Second

// A waiter that listens gets the key soon after the unlock: with HOLDFAST_SOAK=1 within 20 ms. The bound is on the
// median of many, because the machine does other things too. A waiter that is not woken needs seconds.
func TestPostgresWakes(t *testing.T) {
	q, url := new(queue), testenv.PostgresSchema(t, schema())
	l := pglocker.New(pgtest.PoolOn(t, url, q.watch), &pglocker.Options{Poll: time.Minute, Listen: q.listen(t, url)})
	var took []time.Duration
	for range 15 {
		took = append(took, q.handOver(t, l))
	}
	slices.Sort(took)
	most := longestWait / 2
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		most = 20 * time.Millisecond
	}
	if median := took[len(took)/2]; median > most {
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
	_, unlock := mustLock(t, l)
	waits := make(chan struct{})
	q.mu.Lock()
	q.listening, q.refused = false, sync.OnceFunc(func() { close(waits) })
	q.mu.Unlock()
	granted := make(chan time.Time, 1)
	go func() {
		defer close(granted)
		_, unlock, err := l.Lock(ctx, key)
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

// If the connection that wakes waiters breaks, waiters poll until it is back.
func TestPostgresListenBreaks(t *testing.T) {
	t.Parallel()
	l := pglocker.New(pgtest.PoolWith(t, schema()), &pglocker.Options{
		Listen: func(context.Context) (*pgx.Conn, error) { return nil, errors.New("no such host") },
	})
	_, unlock := mustLock(t, l)
	granted := make(chan error)
	go func() {
		_, unlock, err := l.Lock(t.Context(), key)
		if err == nil {
			unlock()
		}
		granted <- err
	}()
	unlock()
	check(t, <-granted)
}

func TestPostgresTableMissing(t *testing.T) {
	l := pglocker.New(testenv.Postgres(t), &pglocker.Options{Prefix: "none_"})
	if _, _, err := l.Lock(t.Context(), key); err == nil || errors.Is(err, lock.ErrHeld) {
		t.Errorf("without a table Lock returns %v", err)
	}
}
