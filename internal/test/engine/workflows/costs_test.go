package workflows_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// counted says what statements a server has executed, and how often.
func counted(t *testing.T, p *pgxpool.Pool) map[string]int64 {
	t.Helper()
	rows, err := p.Query(t.Context(), `SELECT left(regexp_replace(query, '\s+', ' ', 'g'), 150), sum(calls)::bigint
		FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%' GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]int64)
	for rows.Next() {
		var query string
		var n int64
		if err := rows.Scan(&query, &n); err != nil {
			t.Fatal(err)
		}
		all[query] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// since says what was executed since.
func since(t *testing.T, p *pgxpool.Pool, before map[string]int64) (text string) {
	t.Helper()
	for query, n := range counted(t, p) {
		if n > before[query] {
			text += fmt.Sprintf("\n%d × %s", n-before[query], query)
		}
	}
	return text
}

// settle waits until the server has executed nothing for a while.
func settle(t *testing.T, server *testenv.Server) {
	t.Helper()
	for before := server.Statements(); ; {
		<-time.After(1500 * time.Millisecond)
		now := server.Statements()
		if now == before {
			return
		}
		before = now
	}
}

// A run of n steps that is started here is n + 1 statements, and as many durable commits.
func TestStatementsOfRun(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Durable: true, Settings: pgtest.Lazy()})
	w, admin := onPostgres(t, server.URL).here(t), pgtest.PoolOn(t, server.URL)
	def := flow.New("steps", 1, func(r *flow.Run, n int) (int, error) {
		for i := range n {
			if _, err := flow.Step(r, fmt.Sprint(i), func(context.Context) (int, error) { return i, nil }); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	e, _ := w.runWith(t, &flow.Options{Poll: time.Hour, Lease: time.Hour, Logger: quiet}, def)
	c := workflow.NewClient(e.Front())
	syncs := int64(0) // that are too many
	for _, n := range []int{1, 10, 10} {
		settle(t, server)
		synced, before, was := syncsOf(t, admin), counted(t, admin), server.Statements()
		h, err := def.Start(t.Context(), c, n, nil)
		if err == nil {
			_, err = h.Result(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := server.Statements() - was; got != int64(n)+1 {
			t.Errorf("a run of %d steps is %d statements: %s", n, got, since(t, admin, before))
		}
		settle(t, server) // the statistics are late
		more := syncsOf(t, admin) - synced - int64(n) - 1
		if syncs += more; more < 0 && synced >= 0 {
			t.Errorf("a run of %d steps waits for the disk %d times", n, more+int64(n)+1)
		}
	}
	if syncs > 3 { // now and then the server writes to its log for itself
		t.Errorf("the server has waited for its disk %d times too often", syncs)
	}
}

// syncsOf returns how often a server has waited for its disk, or -1 if it does not count that there.
func syncsOf(t *testing.T, p *pgxpool.Pool) int64 {
	t.Helper()
	const knows = `SELECT count(*) FROM pg_attribute
		WHERE attrelid = to_regclass('pg_stat_wal') AND attname = 'wal_sync'`
	if pgtest.Value[int](t, p, knows) == 0 {
		return -1
	}
	return pgtest.Value[int64](t, p, "SELECT wal_sync FROM pg_stat_wal")
}

// A process has one beat a second, for its orchestrator and its engine together.
func TestOneBeat(t *testing.T) {
	for name, build := range sites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := build(t)
			s.DeadAfter, s.Lease = 0, 0
			s.here(t).oneBeat(t)
		})
	}
}

func (w *world) oneBeat(t *testing.T) {
	h := &hook{goOn: make(chan struct{}), out: io.Discard}
	b, err := w.bot(h, inTurn)
	if err != nil {
		t.Fatal(err)
	}
	w.run(t, w.turns(b, h, nowhere))
	c := workflow.NewClient(w.store)
	run, err := c.Start(t.Context(), "turns", "s", nil)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		_, err := b.Execute(t.Context(), "alone", orchestrator.Input{RequestID: "r", Text: "hello"}, nil)
		ended <- err
	}()
	w.awaitBeats(t)
	<-time.After(time.Second) // another would beat by now
	one, before := w.onlyBeat(t)
	<-time.After(5 * time.Second)
	again, after := w.onlyBeat(t)
	if one != again || after-before < 3 || after-before > 6 {
		t.Errorf("%d beats in 5 s, of %s and %s", after-before, one, again)
	}
	r, err := c.Get(t.Context(), run.ID)
	if err != nil || r.Owner != one {
		t.Errorf("%s beats, and owns not %+v: %v", one, r, err)
	}
	close(h.goOn)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if r, err = c.Await(t.Context(), run.ID); err != nil || r.Status != workflow.Completed {
		t.Errorf("%+v: %v", r, err)
	}
}

// onlyBeat returns the only process that beats, and its number.
func (w *world) onlyBeat(t *testing.T) (name string, n int64) {
	t.Helper()
	all, err := w.store.Beat(t.Context(), "")
	if len(all) != 1 || err != nil {
		t.Fatalf("the beats are %v: %v", all, err)
	}
	for name, n = range all {
	}
	return name, n
}

// An idle process that hears what others do makes one statement in 30 seconds.
func TestStatementsOfIdle(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true})
	s := onPostgres(t, server.URL)
	s.DeadAfter, s.Lease, s.Listen = 0, 0, true
	w, admin := s.here(t), pgtest.PoolOn(t, server.URL)
	w.run(t, w.chain(1))
	w.judgeChains(t, w.start(t, 3))
	settle(t, server)
	before, was := counted(t, admin), server.Statements()
	const windows = 2
	<-time.After(windows * 30 * time.Second)
	if n := server.Statements() - was; n > windows+1 { // an end of the time may be a statement
		t.Errorf("%d statements in a minute: %s", n, since(t, admin, before))
	}
}
