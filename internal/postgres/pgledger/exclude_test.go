package pgledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

func begin(t *testing.T, p *pgxpool.Pool, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := p.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// later calls f in the background, and waits until f waits for tx.
func later[T any](t *testing.T, p *pgxpool.Pool, tx pgx.Tx, f func() T) <-chan T {
	t.Helper()
	returned := make(chan T, 1)
	go func() { returned <- f() }()
	pgtest.AwaitBlocked(t, p, tx)
	return returned
}

// everyLevel runs a test on pools whose transactions have each level by default.
func everyLevel(t *testing.T, test func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger)) {
	t.Parallel()
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			p := pgtest.EmptyPool(t, pgtest.Isolation(level))
			test(t, p, create(t, p, nil))
		})
	}
}

var committed = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// An Adopt waits for an Issue that has the fence, and finds what it has issued, also if this is the first effect of the
// run.
func TestAdoptAfterIssue(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger) {
		issue(t, l, effect("old", "before", 1))
		for _, run := range []string{"old", "new"} {
			tx := begin(t, p, committed)
			if _, err := l.IssueIn(t.Context(), tx, effect(run, "of "+run, 1)); err != nil {
				t.Fatal(err)
			}
			adopted := later(t, p, tx, func() error { return l.Adopt(t.Context(), run, fence(2)) })
			commit(t, tx)
			if err := <-adopted; err != nil {
				t.Fatal(err)
			}
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
			func() error { _, _, err := l.Issue(t.Context(), effect("run", "a", int64(1)), false); return err },
			func() error { _, _, err := l.Issue(t.Context(), effect("run", "known", 1), true); return err },
			func() error { _, err := l.Record(t.Context(), pure); return err },
		} {
			tx := begin(t, p, committed)
			if err := l.AdoptIn(t.Context(), tx, "run", fence(int64(2+i))); err != nil {
				t.Fatal(err)
			}
			called := later(t, p, tx, call)
			commit(t, tx)
			if err := <-called; !errors.Is(err, lock.ErrFenced) {
				t.Errorf("call %d returns %v, want %v", i, err, lock.ErrFenced)
			}
		}
		if e := kept(t, l, "known"); e.State != ledger.Unknown || e.Attempts != known.Attempts {
			t.Errorf("the known effect is %+v", e)
		}
		for e, err := range l.Effects(t.Context(), ledger.Query{RunID: "run"}) {
			if err != nil || e.ID != "known" {
				t.Errorf("a refused call leaves %+v, %v", e, err)
			}
		}
	})
}

// A Prune waits for the first effect of a run, and keeps the fence.
func TestPruneBesideIssue(t *testing.T) {
	everyLevel(t, func(t *testing.T, p *pgxpool.Pool, l *pgledger.Ledger) {
		if err := l.Adopt(t.Context(), "run", fence(5)); err != nil {
			t.Fatal(err)
		}
		tx := begin(t, p, committed)
		if _, err := l.IssueIn(t.Context(), tx, effect("run", "a", 5)); err != nil {
			t.Fatal(err)
		}
		pruned := later(t, p, tx, func() error {
			_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
			return err
		})
		commit(t, tx)
		if err := <-pruned; err != nil {
			t.Fatal(err)
		}
		if err := l.Adopt(t.Context(), "run", fence(4)); !errors.Is(err, lock.ErrFenced) {
			t.Errorf("a lower fence: %v, want %v", err, lock.ErrFenced)
		}
	})
}

// The branches of a run do not wait for each other, except for the first effect of the run.
func TestBranches(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	issue(t, l, effect("run", "first", 1))
	for _, id := range []string{"a", "b"} {
		tx := begin(t, p, committed)
		if _, err := l.IssueIn(t.Context(), tx, effect("run", id, 1)); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, l, issue(t, l, effect("run", "c", 1)), paid)
}
