package ledger_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
)

// fill adds n effects, of many runs with 10 effects each, to a ledger on PostgreSQL. Its columns have the given values
// for the i-th effect.
func fill(t *testing.T, p *pgxpool.Pool, n int, id, run, session, intent, state, orchestrator string) {
	t.Helper()
	pgtest.Exec(t, p, fmt.Sprintf(`
		INSERT INTO holdfast_effects (id, run_id, session, intent, state, orchestrator, finished_at, iteration, name, each,
			key, class, epoch, nonce, args_sum, issued_at, attempts)
		SELECT %s, %s, %s, %s, %s, %s, now(), 0, 'n', '', '', 0, 1, 'n1', '', now(), 1 FROM generate_series(1, %d) i`,
		id, run, session, intent, state, orchestrator, n))
	pgtest.Exec(t, p, "INSERT INTO holdfast_effect_fences SELECT DISTINCT run_id, 1, 'n1', now() FROM holdfast_effects")
}

// drained reads all that a query yields.
func drained(l ledger.Ledger, q ledger.Query) func(ctx context.Context) (n int, err error) {
	return func(ctx context.Context) (n int, err error) {
		for _, err := range l.Effects(ctx, q) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
}

// The test counts at the server what each call costs.
func TestPostgresStatements(t *testing.T) {
	t.Parallel()
	server, p, l := private(t, &testenv.Options{Count: true})
	fill(t, p, 100, "'h' || i", "'h'", "'hundred'", "''", "'issued'", "'bot'")
	a := effect("run", "a", 1)
	pure := effect("run", "pure", 2)
	pure.Class = ledger.Pure
	later := time.Now().Add(time.Hour).UnixMicro()
	unconcerned := effect("raised", "f", later)
	unconcerned.Class = ledger.Idempotent
	list := func(q ledger.Query) func() error {
		return func() error { _, err := drained(l, q)(t.Context()); return err }
	}
	issued := func(e ledger.Effect, again bool) func() error {
		return func() error { _, _, err := l.Issue(t.Context(), e, again); return err }
	}
	finished := func() error { _, err := l.Finish(t.Context(), "a", 1, paid); return err }
	for _, c := range []struct {
		what string
		want int64
		do   func() error
	}{
		{"first call of a ledger", 2, list(ledger.Query{ID: "a"})},
		{"first issue of a run", 1, issued(a, false)},
		{"issue", 1, issued(effect("run", "b", 1), false)},
		{"issue of what is known", 2, issued(a, false)},
		{"finish", 1, finished},
		{"finish that is not taken", 2, finished},
		{"issue of what is completed", 2, issued(a, true)},
		{"adopt", 2, func() error { return l.Adopt(t.Context(), "run", fence(2)) }},
		{"record", 1, func() error { _, err := l.Record(t.Context(), pure); return err }},
		{"issue that adopts", 5, issued(effect("run", "c", 3), false)},
		{"list", 1, list(ledger.Query{RunID: "run"})},
		{"tx of what is new, without BEGIN and COMMIT", 2, func() error {
			return pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
				_, err := pgledger.Tx(t.Context(), l, tx, effect("run", "tx", 3), nothing)
				return err
			})
		}},
		{"raise", 2, func() error { _, err := l.Raise(t.Context(), time.Now()); return err }},
		{"issue of what a Raise puts in doubt", 2, issued(effect("raised", "e", later), false)},
		{"issue of what it does not concern", 1, issued(unconcerned, false)},
		// 16, their keys, and then 64 each, or all if they are brief.
		{"list of a hundred", 4, list(ledger.Query{Session: "hundred"})},
		{"brief list of a hundred", 3, list(ledger.Query{Session: "hundred", Brief: true})},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
}

// What an Issue, a Finish, an Adopt and a list of one run, of one session, of the open effects or of the last answers
// cost does not depend on how many effects are finished. PostgreSQL need not have statistics.
func TestPostgresManyFinished(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	l := pgledger.New(p, nil)
	fill(t, p, 99_999, "'f' || i", "'r' || i / 10", "'s' || i / 100", "''", "'completed'", "'bot'")
	pgtest.Exec(t, p, `UPDATE holdfast_effects SET answered_by = 'Ann', answered_at = now() - interval '2 hours'
		WHERE number % 10 = 0`)
	pgtest.Exec(t, p, `UPDATE holdfast_effects SET answered_at = now() WHERE number % 10000 = 0`)
	for i := range 20 {
		issue(t, l, effect("r7", fmt.Sprint("open", i), 1))
	}
	list := func(q ledger.Query, most int) func(int) {
		return func(int) {
			if n, err := drained(l, q)(t.Context()); n != most || err != nil {
				t.Errorf("%+v selects %d effects, %v, want %d", q, n, err, most)
			}
		}
	}
	epoch := int64(1)
	pgtest.Blocks(t, server, p, 400, func(known string) map[string]func(int) {
		issue(t, l, effect("warm "+known, "warm "+known, 1)) // and the catalog is read
		epoch++
		return map[string]func(int){
			"issue and finish": func(n int) {
				finish(t, l, issue(t, l, effect("r8", fmt.Sprint("new ", known, n), 1)), paid)
			},
			"open":    list(ledger.Query{Open: true, Orchestrator: "bot", Session: "session of r7"}, 20),
			"run":     list(ledger.Query{RunID: "r9"}, 10),
			"session": list(ledger.Query{Session: "s9"}, 100),
			"id":      list(ledger.Query{ID: "f9"}, 1),
			"answers": list(ledger.Query{AnsweredWithin: time.Hour, Orchestrator: "bot", Brief: true}, 9),
			"adopt":   func(int) { want(t, l.Adopt(t.Context(), "r6", fence(epoch)), nil) },
		}
	})
}

// A list of all effects looks at all of them a few times, and not once for each page. Prune takes many slices.
func TestPostgresListAll(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := onPool(t, p)
	const n = 45_000
	fill(t, p, n, "md5(i::text)", "'r' || i % 2500", "'s'", "i::text", "'completed'", "'bot'")
	wantIntents(t, l, ledger.Query{}, n, n, func(i int) int { return i + 1 })
	if pruned, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || pruned != n {
		t.Errorf("%d pruned, want %d: %v", pruned, n, err)
	}
	if left := pgtest.Value[int](t, p, "SELECT count(*) FROM holdfast_effect_fences"); left != 0 {
		t.Errorf("%d fences are left", left)
	}
}

// A list of the open effects of a bot has them all in their order, over several pages, and ends where the caller ends
// it.
func TestPostgresListOpen(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := onPool(t, p)
	const n = 4500
	fill(t, p, n*3/2, "md5(i::text)", "'r' || i", "'s'", "i::text",
		"CASE WHEN i % 2 = 0 THEN 'issued' ELSE 'unknown' END", "CASE WHEN i % 3 = 0 THEN 'other' ELSE 'bot' END")
	for _, most := range []int{n + 1, n, n - 1, 2100, 17, 16, 1} {
		q := ledger.Query{Orchestrator: "bot", Open: true, Brief: true}
		wantIntents(t, l, q, most, min(most, n), func(i int) int { return i + i/2 + 1 })
	}
}

// wantIntents lists effects up to most, and shows that there are n, whose intents are these numbers.
func wantIntents(t *testing.T, l ledger.Ledger, q ledger.Query, most, n int, number func(i int) int) {
	t.Helper()
	seen := 0
	for e, err := range l.Effects(t.Context(), q) {
		if err != nil || e.Intent != fmt.Sprint(number(seen)) {
			t.Fatalf("effect %d is %q, want %d: %v", seen, e.Intent, number(seen), err)
		}
		if seen++; seen == most {
			break
		}
	}
	if seen != n {
		t.Errorf("%d effects, want %d", seen, n)
	}
}

// If the server does not wait for its disk by default, all calls but Prune do.
func TestPostgresDurable(t *testing.T) {
	t.Parallel()
	_, p, l := private(t, &testenv.Options{Settings: pgtest.Lazy()})
	pgtest.Durable(t, p, func(n int, call func(what string, do func() error)) {
		e := effect(fmt.Sprint("run", n), fmt.Sprint("e", n), 1)
		pure := effect(e.RunID, fmt.Sprint("pure", n), 2)
		pure.Class = ledger.Pure
		issued := func() error { _, _, err := l.Issue(t.Context(), e, false); return err }
		finished := func() error { _, err := l.Finish(t.Context(), e.ID, 1, paid); return err }
		call("Issue", issued)
		call("Issue of what is known", issued)
		call("Adopt", func() error { return l.Adopt(t.Context(), e.RunID, fence(2)) })
		call("Finish", finished)
		call("Finish that is not taken", finished)
		call("Record", func() error { _, err := l.Record(t.Context(), pure); return err })
		call("Prune", func() error { _, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); return err })
	}, "Prune")
}

// Each query reads by the index that serves it, in few pages. So the cost of what is open, and of a run, does not grow
// with what is finished.
func TestSQLiteLists(t *testing.T) {
	t.Parallel()
	sent, db := sqlitetest.Tamper(t, testenv.SQLite(t))
	l := onFile(t, db, nil)
	sqlitetest.Exec(t, db, `WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 300)
		INSERT INTO holdfast_effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state,
			attempts, epoch, nonce, args_sum, issued_at, finished_at, answered_by, error, args, result)
		SELECT 'old' || i, 'bot', 's' || (i / 100), 'r' || (i / 10), 0, '', 'pay', i, '', 0, 'completed', 1, 1, 'n', '', i, i,
			'', '', '{}', '{}' FROM n`)
	open := issue(t, l, effect("run", "open", 1))
	for _, c := range []struct {
		q       ledger.Query
		by      string
		effects int
		pages   int // of 16, then 64, or 1000 if they are brief
	}{
		{ledger.Query{}, "NOT INDEXED", 301, 6},
		{ledger.Query{Brief: true}, "NOT INDEXED", 301, 2},
		{ledger.Query{Open: true}, "INDEXED BY holdfast_effects_open", 1, 1},
		{ledger.Query{Open: true, Session: open.Session}, "INDEXED BY holdfast_effects_open", 1, 1},
		{ledger.Query{RunID: "r3", Open: true}, "INDEXED BY holdfast_effects_run", 0, 1},
		{ledger.Query{RunID: "r3"}, "INDEXED BY holdfast_effects_run", 10, 1},
		{ledger.Query{Session: "s1"}, "INDEXED BY holdfast_effects_session", 100, 3},
		{ledger.Query{Session: "s1", Brief: true}, "INDEXED BY holdfast_effects_session", 100, 2},
		{ledger.Query{ID: "open"}, "WHERE id = ?5", 1, 1},
	} {
		sent.Executed()
		ids, _ := list(t, l, c.q)
		texts := sent.Executed()
		if len(ids) != c.effects || len(texts) != c.pages {
			t.Errorf("%+v: %d effects in %d pages, want %d in %d", c.q, len(ids), len(texts), c.effects, c.pages)
		}
		for _, text := range texts {
			if !strings.Contains(text, c.by) || strings.Contains(text, "args, result") == c.q.Brief {
				t.Errorf("%+v reads by %s", c.q, text)
			}
		}
	}
}
