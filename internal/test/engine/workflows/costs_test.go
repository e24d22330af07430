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
	o := &flow.Options{Poll: time.Hour, Lease: time.Hour, Logger: quiet}
	e, _ := runOn(t, struct{ workflow.Store }{w.store}, o, def) // without beats: the process of a slow run would beat
	c := workflow.NewClient(e.Front())
	for _, n := range []int{1, 10} {
		// The server waits for its disk for itself too, and the engine looks at a run that is slow. One of so many runs
		// meets neither.
		var said []string
		for exact := false; !exact; {
			statements, syncs, text := runOf(t, server, admin, func() error {
				h, err := def.Start(t.Context(), c, n, nil)
				if err == nil {
					_, err = h.Result(t.Context())
				}
				return err
			})
			want := int64(n) + 1
			exact = statements == want && (syncs == want || syncs < 0)
			said = append(said, fmt.Sprintf("%d, and waits for the disk %d times: %s", statements, syncs, text))
			if statements < want || len(said) == 10 && !exact {
				t.Fatalf("a run of %d steps is so many statements: %q", n, said)
			}
		}
	}
}

// runOf counts the statements of a run, and how often the server waits for its disk, or -1 if it does not count that.
func runOf(t *testing.T, server *testenv.Server, p *pgxpool.Pool, run func() error) (n, syncs int64, text string) {
	t.Helper()
	settle(t, server)
	synced, before, was := syncsOf(t, p), counted(t, p), server.Statements()
	if err := run(); err != nil {
		t.Fatal(err)
	}
	n, text = server.Statements()-was, since(t, p, before)
	settle(t, server) // the statistics are late
	if synced < 0 {
		return n, -1, text
	}
	return n, syncsOf(t, p) - synced, text
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
	began := time.Now()
	one, before := w.onlyBeat(t)
	again, after := one, before
	for again == one && after < before+5 {
		<-time.After(time.Second)
		again, after = w.onlyBeat(t)
	}
	took := time.Since(began)
	if one != again || after-before > 2*int64(took/time.Second)+2 { // a beat without an answer is repeated soon
		t.Errorf("%d beats in %v, of %s and %s", after-before, took, one, again)
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
	before, was, began := counted(t, admin), server.Statements(), time.Now()
	<-time.After(time.Minute)
	n, took := server.Statements()-was, time.Since(began)
	if n > int64(took/(30*time.Second))+1 { // an end of the time may be a statement
		t.Errorf("%d statements in %v: %s", n, took, since(t, admin, before))
	}
}
