package turnlog_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
)

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, _, l := onPostgres.Private(t, &testenv.Options{Count: true})
	recorded := func(e turnlog.Entry) func() error {
		return func() error { return l.Record(t.Context(), e) }
	}
	pruned := func(ms int) func() error {
		return func() error { _, err := prune(t.Context(), l, ms); return err }
	}
	cost := pgtest.Costs(t, server)
	cost("first call of a log", 2, recorded(entry("run", turnlog.Started, 0)))
	cost("an entry", 1, recorded(entry("run", turnlog.ToolReceived, 1)))
	cost("the same entry", 2, recorded(entry("run", turnlog.ToolReceived, 1)))
	cost("the last entry", 1, recorded(entry("run", turnlog.Settled, 2)))
	cost("the first entry of another run", 1, recorded(entry("other", turnlog.Started, 2)))
	cost("restore", 1, func() error { _, err := l.Restore(t.Context(), "run"); return err })
	cost("list", 1, func() error { _, _, err := list(t.Context(), l, turnlog.Query{Open: true}); return err })
	cost("prune of nothing", 1, pruned(0))
	cost("prune of a turn", 3, pruned(5000))
}

// fill records turns of four entries as the log would have written them. Each hundredth is open.
func fill(t *testing.T, p *pgxpool.Pool, turns int) {
	t.Helper()
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_phases (run, at, phase, state)
		SELECT 'r' || i, '2020-01-01Z'::timestamptz + (i * 10 + n) * interval '1 ms',
			(ARRAY['started', 'llm-complete', 'tool-received', 'settled'])[n + 1], '{"n":1}'
		FROM generate_series(0, $1::integer) i, generate_series(0, 3) n WHERE n < 3 OR i % 100 <> 0`, turns-1)
	pgtest.Exec(t, p, `
		INSERT INTO holdfast_logged (run, orchestrator, session, turn, first, last, started, settled, open)
		SELECT run, 'bot', 's' || substr(run, 2)::integer / 10, 0, min(at), max(at), min(at), max(at) FILTER (WHERE phase = 'settled'),
			bool_and(phase <> 'settled')
		FROM holdfast_phases GROUP BY run`)
}

// What an entry, a Restore, and a list of open turns, of one session or of a page cost does not depend on how many
// turns there are. PostgreSQL need not have statistics.
func TestPostgresManyTurns(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	l := onPostgres.On(t, p, "")
	fill(t, p, 50_000)
	pgtest.Exec(t, p, `UPDATE holdfast_logged SET open = false, settled = last WHERE open AND run NOT IN ('r100', 'r200')`)
	list := func(q turnlog.Query, want int) func(int) {
		return func(int) {
			if got := runs(t, l, q); len(got) != want {
				t.Errorf("%+v selects %d turns, want %d", q, len(got), want)
			}
		}
	}
	pgtest.Blocks(t, server, p, 400, func(known string) map[string]func(int) {
		record(t, l, entry("warm "+known, turnlog.Settled, 1000)) // and the catalog is read
		middle := pgtest.Value[string](t, p, `SELECT run FROM holdfast_logged ORDER BY first OFFSET 25000 LIMIT 1`)
		all, err := l.Restore(t.Context(), middle)
		check(t, err)
		return map[string]func(int){
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
			"page in the middle":          list(turnlog.Query{After: all[0].At, AfterRun: middle, Limit: 16}, 16),
			"page of open ones that ends": list(turnlog.Query{Open: true, After: at(0)}, 0),
		}
	})
}

// An entry that neither opens nor settles a turn touches no index of the runs.
func TestPostgresHeapOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t, pgtest.OneConnection)
	l := onPostgres.On(t, p, "")
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
func TestPostgresListAll(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := onPostgres.On(t, p, "")
	const n = 3500
	fill(t, p, n)
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
	if pruned, err := prune(t.Context(), l, 0); err != nil || pruned != n-n/100 {
		t.Errorf("%d pruned, want %d: %v", pruned, n-n/100, err)
	}
	if left := pgtest.Value[int](t, p, "SELECT count(*) FROM holdfast_phases"); left != 3*n/100 {
		t.Errorf("%d entries are left, want %d", left, 3*n/100)
	}
}

// If the server does not wait for its disk by default, Record does, and Prune does not.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	_, p, l := onPostgres.Private(t, &testenv.Options{Settings: pgtest.Lazy()})
	pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
		recorded := func(phase string, ms int) func() error {
			return func() error { return l.Record(t.Context(), entry(fmt.Sprint("run", n), phase, ms)) }
		}
		call("the first Record", recorded(turnlog.Started, 0))
		call("Record", recorded(turnlog.Settled, 1))
		call("Record of what is known", recorded(turnlog.Settled, 1))
		call("Prune", func() error { _, err := prune(t.Context(), l, 5000); return err })
	}, "Prune")
}
