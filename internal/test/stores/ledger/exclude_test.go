package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// holding begins a transaction, and calls a ledger whose calls are in it.
func holding(t *testing.T, p *pgxpool.Pool, call func(l *pgledger.Ledger)) pgx.Tx {
	t.Helper()
	tx := begin(t, p, committed)
	call(pgledger.New(tx, nil))
	return tx
}

// afterwards calls f in the background, and waits until f waits for tx. It commits tx, and returns what f returns.
func afterwards(t *testing.T, p *pgxpool.Pool, tx pgx.Tx, f func() error) error {
	t.Helper()
	returned := make(chan error, 1)
	go func() { returned <- f() }()
	pgtest.AwaitBlocked(t, p, tx)
	want(t, tx.Commit(t.Context()), nil)
	return <-returned
}

// everyLevel runs a test on pools whose transactions have each level by default.
func everyLevel(t *testing.T, test func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger)) {
	t.Parallel()
	for _, level := range levels {
		t.Run("postgres/"+level, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t, pgtest.Isolation(level))
			test(t, p, onPool(t, p))
		})
	}
}

// An Adopt waits for an Issue that has the fence, and finds what it has issued, also if this is the first effect of the
// run.
func TestAdoptAfterIssue(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger) {
		issue(t, l, effect("old", "before", 1))
		for _, run := range []string{"old", "new"} {
			tx := holding(t, p, func(l *pgledger.Ledger) { issue(t, l, effect(run, "of "+run, 1)) })
			want(t, afterwards(t, p, tx, func() error { return l.Adopt(t.Context(), run, fence(2)) }), nil)
			if e := kept(t, l, "of "+run); e.State != ledger.Unknown {
				t.Errorf("of the %s run, after Adopt the effect is %s", run, e.State)
			}
		}
	})
}

// An Issue and a Record wait for an Adopt that has the fence, and are refused.
func TestIssueAfterAdopt(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger) {
		known := issue(t, l, effect("run", "known", 1))
		pure := effect("run", "pure", 1)
		pure.Class = ledger.Pure
		for i, call := range []func() error{
			func() error { _, _, err := l.Issue(t.Context(), effect("run", "a", 1), false); return err },
			func() error { _, _, err := l.Issue(t.Context(), effect("run", "known", 1), true); return err },
			func() error { _, err := l.Record(t.Context(), pure); return err },
		} {
			tx := holding(t, p, func(l *pgledger.Ledger) {
				want(t, l.Adopt(t.Context(), "run", fence(int64(2+i))), nil)
			})
			want(t, afterwards(t, p, tx, call), lock.ErrFenced)
		}
		if e := kept(t, l, "known"); e.State != ledger.Unknown || e.Attempts != known.Attempts {
			t.Errorf("the known effect is %+v", e)
		}
		if ids, _ := list(t, l, ledger.Query{RunID: "run"}); len(ids) != 1 {
			t.Errorf("a refused call leaves one of %q", ids)
		}
	})
}

// A Prune waits for the first effect of a run, and keeps the fence.
func TestPruneBesideIssue(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger) {
		want(t, l.Adopt(t.Context(), "run", fence(5)), nil)
		tx := holding(t, p, func(l *pgledger.Ledger) { issue(t, l, effect("run", "a", 5)) })
		want(t, afterwards(t, p, tx, func() error {
			_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
			return err
		}), nil)
		want(t, l.Adopt(t.Context(), "run", fence(4)), lock.ErrFenced)
	})
}

// The branches of a run do not wait for each other, except for the first effect of the run.
func TestPostgresBranches(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := onPool(t, p)
	issue(t, l, effect("run", "first", 1))
	for _, id := range []string{"a", "b"} {
		holding(t, p, func(l *pgledger.Ledger) { issue(t, l, effect("run", id, 1)) })
	}
	finish(t, l, issue(t, l, effect("run", "c", 1)), paid)
}

// An owner that is fenced off between the two statements of an Issue does not take its successor's attempt for its own.
func TestSQLiteIssueMeetsAdopt(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	low, high := onFile(t, sqlitetest.Open(t, dsn), nil), onFile(t, sqlitetest.Open(t, dsn), nil)
	for n := range 50 {
		run := fmt.Sprint("run", n)
		e := effect(run, run, 1)
		issue(t, low, e)
		next := e
		next.Fence, next.Attempts = lock.Fence{Epoch: 2, Nonce: "next"}, 1
		var wg sync.WaitGroup
		var now ledger.Effect
		var issued bool
		var err error
		wg.Go(func() { now, issued, err = low.Issue(t.Context(), e, false) })
		wg.Go(func() {
			if again, issued, err := high.Issue(t.Context(), next, true); err != nil || !issued || again.Attempts != 2 {
				t.Errorf("%+v, %t, %v", again, issued, err)
			}
		})
		wg.Wait()
		if err == nil && (!issued || now.Attempts != 1) || err != nil && !errors.Is(err, lock.ErrFenced) {
			t.Errorf("the former owner is told %+v, %t, %v", now, issued, err)
		}
	}
}

// If the statement of an attempt fails in the transaction that has adopted the run, the caller is told so.
func TestSQLiteIssueAnewFails(t *testing.T) {
	t.Parallel()
	_, db := sqlitetest.Tamper(t, testenv.SQLite(t), "attempts = attempts + 1", "attempts = -attempts")
	l := onFile(t, db, nil)
	e := finish(t, l, issue(t, l, effect("run", "a", 1)), ledger.Outcome{State: ledger.Failed})
	now, issued, err := l.Issue(t.Context(), e, true)
	if err == nil || issued {
		t.Errorf("Issue returns %+v, %t, %v", now, issued, err)
	}
}
