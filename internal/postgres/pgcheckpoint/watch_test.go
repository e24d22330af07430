package pgcheckpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

// They also hold the contract of beats.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgx.QueryExecMode{
		"default": pgx.QueryExecModeCacheStatement, "exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := pgtest.EmptyPool(t, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
			n := 0
			newStore := func(t *testing.T) *pgcheckpoint.Store {
				n++
				o := pgcheckpoint.Options{Prefix: fmt.Sprintf("w%d_", n)}
				return pgtest.Create(t, pool, pgcheckpoint.New(pool, &o))
			}
			locktest.RunWatcher(t, func(t *testing.T) lock.Watcher { return newStore(t) })
			locktest.RunBeater(t, func(t *testing.T) lock.Beater { return newStore(t) })
		})
	}
}

// A watch that ends at an infinite time is over.
func TestEndlessWatch(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := pgtest.Create(t, p, pgcheckpoint.New(p, nil))
	for _, until := range []string{"infinity", "-infinity"} {
		if _, err := s.Watch(t.Context(), "bot", until, "first", time.Hour); err != nil {
			t.Fatal(err)
		}
		pgtest.Exec(t, p, s.Fill("UPDATE {watches} SET until = $1::text::timestamptz WHERE definition = $1"), until)
		if other, err := s.Watch(t.Context(), "bot", until, "second", time.Hour); other != 0 || err != nil {
			t.Errorf("%s: another process watches for %v, %v", until, other, err)
		}
	}
}

// A process that asks in vain writes nothing, and reads a page or two. If no process has a definition any more, nothing
// of it stays.
func TestWatchCost(t *testing.T) {
	t.Parallel()
	p := pgtest.PoolOn(t, testenv.StartPostgres(t, nil).URL, pgtest.OneConnection)
	s := pgtest.Create(t, p, pgcheckpoint.New(p, nil))
	ask := func(definition, process string, d time.Duration) bool {
		t.Helper()
		other, err := s.Watch(t.Context(), "bot", definition, process, d)
		if err != nil {
			t.Fatal(err)
		}
		return other == 0
	}
	const unseen = `INSERT INTO holdfast_watches SELECT 'bot', 'old ' || i, 'p', now() - interval '2 days' FROM generate_series(1, 10) i`
	pgtest.Exec(t, p, unseen)
	if !ask("v1", "a", time.Hour) {
		t.Fatal("nobody is the watcher")
	}
	var rows, written int64
	if err := p.QueryRow(t.Context(), "SELECT count(*) FROM holdfast_watches").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, want 1: %v", rows, err)
	}
	lsn := func() (n int64) {
		if err := p.QueryRow(t.Context(), "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const asks = 100
	before := lsn()
	for range asks {
		if ask("v1", "b", time.Hour) {
			t.Fatal("two are the watcher")
		}
	}
	// The server writes to its log for itself now and then.
	if written = lsn() - before; written > 20*asks {
		t.Errorf("%d bytes of the log for %d who asked in vain", written, asks)
	}
}
