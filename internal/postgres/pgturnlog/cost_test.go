package pgturnlog_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
)

// The test counts at the server what each call costs.
func TestStatements(t *testing.T) {
	t.Parallel()
	server, _, l := private(t, &testenv.Options{Count: true})
	recorded := func(e turnlog.Entry) func() error {
		return func() error { return l.Record(t.Context(), e) }
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a log", recorded(entry("run", turnlog.Started, 0)), 2},
		{"an entry", recorded(entry("run", turnlog.ToolReceived, 1)), 1},
		{"the same entry", recorded(entry("run", turnlog.ToolReceived, 1)), 2},
		{"the last entry", recorded(entry("run", turnlog.Settled, 2)), 1},
		{"the first entry of another run", recorded(entry("other", turnlog.Started, 2)), 1},
		{"restore", func() error { _, err := l.Restore(t.Context(), "run"); return err }, 1},
		{"list", func() error {
			for _, err := range l.Turns(t.Context(), turnlog.Query{Open: true}) {
				if err != nil {
					return err
				}
			}
			return nil
		}, 1},
		{"prune of nothing", func() error { _, err := l.Prune(t.Context(), at(0)); return err }, 1},
		{"prune of a turn", func() error { _, err := l.Prune(t.Context(), at(5000)); return err }, 3},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// fill records turns of four entries as the log would have written them, from a number on. Each hundredth is open.
func fill(t *testing.T, p *pgxpool.Pool, l *pgturnlog.Log, from, to int) {
	t.Helper()
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {phases} (run, at, phase, state)
		SELECT 'r' || i, '2020-01-01Z'::timestamptz + (i * 10 + n) * interval '1 ms',
			(ARRAY['started', 'llm-complete', 'tool-received', 'settled'])[n + 1], '{"n":1}'
		FROM generate_series($1::integer, $2::integer) i, generate_series(0, 3) n WHERE n < 3 OR i % 100 <> 0`), from, to-1)
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {logged} (run, orchestrator, session, turn, first, last, started, settled, open)
		SELECT run, 'bot', 's' || substr(run, 2)::integer / 10, 0, min(at), max(at), min(at), max(at) FILTER (WHERE phase = 'settled'),
			bool_and(phase <> 'settled')
		FROM {phases} WHERE at >= '2020-01-01Z'::timestamptz + $1::integer * interval '10 ms' GROUP BY run`), from)
}

// What an entry, a Restore, and a list of open turns, of one session or of a page cost does not depend on how many
// turns there are. PostgreSQL need not have statistics.
func TestManyTurns(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	l := pgturnlog.New(p, nil)
	const n = 50_000
	fill(t, p, l, 0, n)
	pgtest.Exec(t, p, l.Fill(`UPDATE {logged} SET open = false, settled = last WHERE open AND run NOT IN ('r100', 'r200')`))
	list := func(q turnlog.Query, want int) func(int) {
		return func(int) {
			if got := runs(t, l, q); len(got) != want {
				t.Errorf("%+v selects %d turns, want %d", q, len(got), want)
			}
		}
	}
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset()                                                 // plans are made anew
		record(t, l, entry("warm "+known, turnlog.Settled, 1000)) // and the catalog is read
		for what, do := range map[string]func(int){
			"record": func(i int) {
				run := fmt.Sprint("new ", known, i)
				record(t, l, entry(run, turnlog.Started, 0), entry(run, turnlog.ToolReceived, 1),
					entry(run, turnlog.Settled, 2))
			},
			"restore": func(int) {
				if all, err := l.Restore(t.Context(), "r777"); err != nil || len(all) != 4 {
					t.Errorf("restored %v, %v", all, err)
				}
			},
			"open":                        list(turnlog.Query{Open: true}, 2),
			"open of a bot":               list(turnlog.Query{Open: true, Orchestrator: "bot"}, 2),
			"open of a session":           list(turnlog.Query{Open: true, Session: "s10"}, 1),
			"session":                     list(turnlog.Query{Session: "s9"}, 10),
			"page":                        list(turnlog.Query{Limit: 16}, 16),
			"page of a bot":               list(turnlog.Query{Orchestrator: "bot", Limit: 16}, 16),
			"page of old ones":            list(turnlog.Query{OlderThan: 1, Limit: 16}, 16),
			"page in the middle":          list(turnlog.Query{After: at(0).AddDate(-4, 0, 0), AfterRun: "r1", Limit: 16}, 16),
			"page of open ones that ends": list(turnlog.Query{Open: true, After: at(0)}, 0),
		} {
			if what == "page in the middle" {
				first := pgtest.Value[string](t, p, l.Fill(`SELECT run FROM {logged} ORDER BY first OFFSET 25000 LIMIT 1`))
				all, err := l.Restore(t.Context(), first)
				if err != nil {
					t.Fatal(err)
				}
				do = list(turnlog.Query{After: all[0].At, AfterRun: first, Limit: 16}, 16)
			}
			do(0) // plans, and what is read of the catalog once
			before := server.Blocks()
			do(1)
			if touched := server.Blocks() - before; touched > 400 {
				t.Errorf("with %s known, %s touches %d blocks", known, what, touched)
			} else {
				t.Logf("with %s known, %s: %d blocks", known, what, touched)
			}
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// An entry that neither opens nor settles a turn touches no index of the runs.
func TestHeapOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t, pgtest.OneConnection)
	l := create(t, p, nil)
	const turns, entries = 20, 10
	for i := range turns {
		for n := range entries {
			record(t, l, entry(fmt.Sprint("run ", i), turnlog.ToolReceived, n))
		}
	}
	const logged = "FROM pg_stat_user_tables WHERE relid = 'holdfast_logged'::regclass"
	var updates, hot int
	for updates < turns*(entries-1) {
		pgtest.Exec(t, p, "SELECT pg_stat_clear_snapshot()")
		updates = pgtest.Value[int](t, p, "SELECT n_tup_upd "+logged)
		hot = pgtest.Value[int](t, p, "SELECT n_tup_hot_upd "+logged)
	}
	if t.Logf("%d of %d updates are heap-only", hot, updates); hot < updates*9/10 {
		t.Error("an entry touches the indexes of the runs")
	}
}

// Turns of many pages come in their order, and Prune takes many slices.
func TestListAll(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	const n = 3500
	fill(t, p, l, 0, n)
	for _, c := range []struct {
		q    turnlog.Query
		want int
	}{
		{turnlog.Query{}, n},
		{turnlog.Query{Limit: 1234}, 1234},
		{turnlog.Query{Limit: 16}, 16},
		{turnlog.Query{Open: true}, n / 100},
	} {
		all := runs(t, l, c.q)
		if len(all) != c.want {
			t.Errorf("%+v selects %d turns, want %d", c.q, len(all), c.want)
		}
		for i, run := range all {
			if want := fmt.Sprint("r", i); run != want && !c.q.Open {
				t.Fatalf("turn %d is %s, want %s", i, run, want)
			}
		}
	}
	if pruned, err := l.Prune(t.Context(), at(0)); err != nil || pruned != n-n/100 {
		t.Errorf("%d pruned, want %d: %v", pruned, n-n/100, err)
	}
	if left := pgtest.Value[int](t, p, l.Fill("SELECT count(*) FROM {phases}")); left != 3*n/100 {
		t.Errorf("%d entries are left, want %d", left, 3*n/100)
	}
}

// If the server does not wait for its disk by default, Record does, and Prune does not. Now and then the server writes
// to its log for itself, so one round alone proves nothing.
func TestDurable(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	const rounds = 20
	lazy := make(map[string]int)
	flushed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if pgtest.Unflushed(t, p) > 0 {
			lazy[what]++
		}
	}
	for i := range rounds {
		run := fmt.Sprint("run", i)
		flushed("the first Record", l.Record(t.Context(), entry(run, turnlog.Started, 0)))
		flushed("Record", l.Record(t.Context(), entry(run, turnlog.Settled, 1)))
		flushed("Record of what is known", l.Record(t.Context(), entry(run, turnlog.Settled, 1)))
		_, err := l.Prune(t.Context(), at(5000))
		flushed("Prune", err)
	}
	if lazy["Prune"] < rounds/2 {
		t.Error("Prune waits for the disk, or this test cannot tell")
	}
	delete(lazy, "Prune")
	for what, n := range lazy {
		if n > rounds/4 {
			t.Errorf("%s is not durable: %d times of %d", what, n, rounds)
		}
	}
}
