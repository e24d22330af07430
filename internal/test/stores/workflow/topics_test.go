package workflow_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
)

// kinds are subscriptions of each kind to "user.*", and one to another topic.
var kinds = []workflow.Subscription{
	{ID: "a", Pattern: "user.*", Workflow: "onboard"},
	{ID: "b", Pattern: "user.*", URL: "https://crm.example/hook"},
	{ID: "c", Pattern: "user.*", Session: "support"},
	{ID: "d", Pattern: "order.#", Workflow: "ship"},
}

func subscribe(t *testing.T, s workflow.Subscriptions, all ...workflow.Subscription) {
	t.Helper()
	for _, sub := range all {
		check(t, s.Subscribe(t.Context(), sub))
	}
}

// One publish reaches a workflow, a URL and a session, once each, whoever publishes the message again.
func TestPublish(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) workflow.Store) {
		s := open(t)
		subscribe(t, s, kinds...)
		var all sync.WaitGroup
		var mu sync.Mutex
		began := make(map[string]int)
		for range 8 {
			all.Go(func() {
				started, err := workflow.Publish(t.Context(), s, nil, "user.signup", "m1", map[string]any{"user": 42})
				if err != nil || len(started) != 3 {
					t.Errorf("%d runs, %v", len(started), err)
				}
				mu.Lock()
				defer mu.Unlock()
				for _, r := range started {
					if began[r.ID] += 0; r.New {
						began[r.ID]++
					}
				}
			})
		}
		all.Wait()
		if len(began) != 3 {
			t.Errorf("the runs are %v", began)
		}
		for run, n := range began {
			if n != 1 {
				t.Errorf("run %s was begun %d times", run, n)
			}
		}
		other := func() {
			t.Helper()
			_, err := workflow.Publish(t.Context(), s, nil, "user.signup", "m1", 43)
			if !errors.Is(err, workflow.ErrKeyReused) {
				t.Errorf("another message with the id: %v", err)
			}
		}
		other()
		// All or none: a subscriber that is new does not get what the others refuse.
		subscribe(t, s, workflow.Subscription{ID: "0", Pattern: "#", Workflow: "new"})
		other()
		if got := list(t, s); len(got) != 3 {
			t.Errorf("there are %d runs", len(got))
		}
		check(t, s.Unsubscribe(t.Context(), "b"))
		second, err := workflow.Publish(t.Context(), s, nil, "user.signup", "m2", 1)
		if err != nil || len(second) != 3 {
			t.Errorf("after one has gone: %+v, %v", second, err)
		}
	})
}

// A publish in a transaction of the caller starts nothing unless it commits, and sees what the transaction subscribes.
// It works with one connection.
func TestPostgresPublishIn(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t, pgtest.OneConnection)
	db := postgres.New(p, nil)
	subscribe(t, db.Workflows(), kinds[:2]...)
	for _, commits := range []bool{false, true} {
		tx, err := p.Begin(t.Context())
		check(t, err)
		publishIn(t, db.In(tx))
		if commits {
			check(t, tx.Commit(t.Context()))
		} else {
			check(t, tx.Rollback(t.Context()))
		}
		published(t, db.Workflows(), commits)
	}
}

func TestSQLitePublishIn(t *testing.T) {
	t.Parallel()
	file := sqlitetest.Open(t, testenv.SQLite(t))
	db := sqlite.New(file, nil)
	check(t, db.Up(t.Context()))
	subscribe(t, db.Workflows(), kinds[:2]...)
	for _, commits := range []bool{false, true} {
		tx, err := file.BeginTx(t.Context(), nil)
		check(t, err)
		publishIn(t, db.In(tx))
		if commits {
			check(t, tx.Commit())
		} else {
			check(t, tx.Rollback())
		}
		published(t, db.Workflows(), commits)
	}
}

func publishIn(t *testing.T, in workflow.Front) {
	t.Helper()
	subscribe(t, in.(workflow.Subscriptions), kinds[2])
	started, err := workflow.Publish(t.Context(), in, nil, "user.signup", "m1", 42)
	if check(t, err); len(started) != 3 {
		t.Errorf("started %+v", started)
	}
}

// published checks what is there once the transaction of publishIn is over.
func published(t *testing.T, s workflow.Store, commits bool) {
	t.Helper()
	runs, subs := 0, 2
	if commits {
		runs, subs = 3, 3
	}
	all, err := s.Subscriptions(t.Context())
	if check(t, err); len(all) != subs || len(list(t, s)) != runs {
		t.Errorf("%d subscriptions and %d runs, want %d and %d", len(all), len(list(t, s)), subs, runs)
	}
}

// A subscription that no store has written is named, and nothing is published. Once it is gone, all is well.
func TestPostgresSubscriptionDamaged(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t)
	damaged(t, postgres.New(p, nil).Workflows(), func(sql string) { pgtest.Exec(t, p, sql) })
}

func TestSQLiteSubscriptionDamaged(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	damaged(t, onSQLite(t, db, ""), func(sql string) { sqlitetest.Exec(t, db, sql) })
}

func damaged(t *testing.T, s workflow.Store, exec func(sql string)) {
	t.Helper()
	for _, change := range []string{"pattern = 'a..b'", "url = 'file:///etc/passwd', workflow = ''"} {
		subscribe(t, s, kinds...)
		exec("UPDATE holdfast_workflow_subscriptions SET " + change + " WHERE id = 'a'")
		_, err := workflow.Publish(t.Context(), s, nil, "order.paid", "m", 1)
		damage, is := errors.AsType[*workflow.DamagedError](err)
		if !is || damage.What != "subscription" || damage.ID != "a" || len(list(t, s)) != 0 {
			t.Errorf("after %s: %v", change, err)
		}
		check(t, s.Unsubscribe(t.Context(), "a"))
	}
	if _, err := workflow.Publish(t.Context(), s, nil, "order.paid", "m", 1); err != nil {
		t.Error(err)
	}
}

// A publish to 100 subscriptions is one transaction: two statements for each run, and one that reads them.
func TestPostgresStatementsOfPublish(t *testing.T) {
	t.Parallel()
	server, _, s := onPostgres.Private(t, &testenv.Options{Count: true})
	hundred(t, s)
	publish := func() error {
		started, err := workflow.Publish(t.Context(), s, nil, "a", "m", 1)
		if err == nil && len(started) != 100 {
			err = fmt.Errorf("%d runs are started", len(started))
		}
		return err
	}
	cost := pgtest.Costs(t, server)
	cost("a publish to 100", 201, publish)
	cost("a second one", 201, publish)
	cost("a publish to none", 1, func() error {
		_, err := workflow.Publish(t.Context(), s, nil, "b", "m", 1)
		return err
	})
	new := workflow.Subscription{ID: "new", Pattern: "b", Workflow: "w"}
	cost("a subscription", 1, func() error { return s.Subscribe(t.Context(), new) })
	cost("the same once more", 2, func() error { return s.Subscribe(t.Context(), new) })
	cost("its end", 1, func() error { return s.Unsubscribe(t.Context(), "new") })
}

func hundred(t testing.TB, s workflow.Store) {
	t.Helper()
	for i := range 100 {
		sub := workflow.Subscription{ID: fmt.Sprint("s", i), Pattern: "a", Workflow: "w"}
		if err := s.Subscribe(t.Context(), sub); err != nil {
			t.Fatal(err)
		}
	}
}

// The newest run with a prefix of keys is one row of an index, however many runs there are.
func TestPostgresKeysPlan(t *testing.T) {
	t.Parallel()
	p := pgtest.Pool(t, pgtest.OneConnection)
	s := postgres.New(p, nil).Workflows()
	pgtest.Exec(t, p, `INSERT INTO holdfast_workflow_runs (id, workflow, version, due, since, key, retention, started, input)
		SELECT 'r' || i, 'w' || i % 3, 1, 'infinity', now(), CASE WHEN i % 2 = 0 THEN 'k ' || i ELSE 'l ' || i END, 30,
			now() - i * interval '1 second', '{}' FROM generate_series(1, 50000) i`)
	pgtest.Exec(t, p, "ANALYZE holdfast_workflow_runs")
	testenv.FlushStatistics(t, p)
	before := pgtest.Value[int64](t, p, touched)
	q := workflow.Query{Workflow: "w1", KeyPrefix: "k ", Limit: 3}
	for range 10 {
		check(t, pages(t, s, q, 10, 3)())
	}
	testenv.FlushStatistics(t, p)
	if n := pgtest.Value[int64](t, p, touched) - before; n > 1000 {
		t.Errorf("10 queries have touched %d blocks", n)
	}
}

// touched is how many blocks of runs were asked for.
const touched = `SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
	FROM pg_statio_user_tables WHERE relname = 'holdfast_workflow_runs'`
