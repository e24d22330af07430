package pgledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
)

// The test counts at the server what each call costs.
func TestStatements(t *testing.T) {
	t.Parallel()
	server, p, l := private(t, &testenv.Options{Count: true})
	a := effect("run", "a", 1)
	pure := effect("run", "pure", 2)
	pure.Class = ledger.Pure
	list := func(q ledger.Query) func() error {
		return func() error {
			for _, err := range l.Effects(t.Context(), q) {
				if err != nil {
					return err
				}
			}
			return nil
		}
	}
	issued := func(e ledger.Effect, again bool) func() error {
		return func() error { _, _, err := l.Issue(t.Context(), e, again); return err }
	}
	finished := func(o ledger.Outcome) func() error {
		return func() error { _, err := l.Finish(t.Context(), "a", 1, o); return err }
	}
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"first call of a ledger", list(ledger.Query{ID: "a"}), 2},
		{"first issue of a run", issued(a, false), 1},
		{"issue", issued(effect("run", "b", 1), false), 1},
		{"issue of what is known", issued(a, false), 2},
		{"finish", finished(paid), 1},
		{"finish that is not taken", finished(paid), 2},
		{"issue of what is completed", issued(a, true), 2},
		{"adopt", func() error { return l.Adopt(t.Context(), "run", fence(2)) }, 2},
		{"record", func() error { _, err := l.Record(t.Context(), pure); return err }, 1},
		{"issue that adopts", issued(effect("run", "c", 3), false), 5},
		{"list", list(ledger.Query{RunID: "run"}), 1},
		{"tx of what is new, without BEGIN and COMMIT", func() error {
			return pgx.BeginFunc(t.Context(), p, func(tx pgx.Tx) error {
				_, err := inThis(t, l, tx, effect("run", "tx", 3))
				return err
			})
		}, 2},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
	later := time.Now().Add(time.Hour).UnixMicro()
	for _, c := range []struct {
		what string
		do   func() error
		want int64
	}{
		{"raise", func() error { _, err := l.Raise(t.Context(), time.Now()); return err }, 2},
		{"issue of what a Raise puts in doubt", issued(effect("raised", "e", later), false), 2},
		{"issue of what it does not concern", issued(unconcerned(effect("raised", "f", later)), false), 1},
	} {
		pgtest.Statements(t, server, c.what, c.want, c.do)
	}
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {effects} (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, epoch, nonce,
			args_sum, issued_at, attempts, state)
		SELECT 'h' || i, 'bot', 'hundred', 'h', 0, '', 'n', '', '', 0, 1, 'n1', '', now(), 1, 'issued'
		FROM generate_series(1, 100) i`))
	hundred := ledger.Query{Session: "hundred"} // 16, their keys, and then 64 each, or all if they are brief
	pgtest.Statements(t, server, "list of a hundred", 4, list(hundred))
	hundred.Brief = true
	pgtest.Statements(t, server, "brief list of a hundred", 3, list(hundred))
}

func unconcerned(e ledger.Effect) ledger.Effect {
	e.Class = ledger.Idempotent
	return e
}

func inThis(t *testing.T, l *pgledger.Ledger, tx pgx.Tx, e ledger.Effect) (int, error) {
	return pgledger.Tx(t.Context(), l, tx, e, nothing)
}

// What an Issue, a Finish, an Adopt and a list of one run, of one session, of the open effects or of the last answers
// cost does not depend on how many effects are finished. PostgreSQL need not have statistics.
func TestManyFinished(t *testing.T) {
	t.Parallel()
	server, _, _ := private(t, &testenv.Options{Count: true, Settings: map[string]string{"autovacuum": "off"}})
	p := pgtest.PoolOn(t, server.URL, pgtest.OneConnection)
	l := pgledger.New(p, nil)
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {effects} (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, epoch, nonce,
			args_sum, issued_at, attempts, state, finished_at)
		SELECT 'f' || i, 'bot', 's' || i / 100, 'r' || i / 10, 0, '', 'n', '', '', 0, 1, 'n1', '', now(), 1, 'completed', now()
		FROM generate_series(0, 99999) i`))
	pgtest.Exec(t, p, l.Fill(`INSERT INTO {effect_fences} SELECT 'r' || i, 1, 'n1', now() FROM generate_series(0, 9999) i`))
	pgtest.Exec(t, p, l.Fill(`UPDATE {effects} SET answered_by = 'Ann', answered_at = now() - interval '2 hours' WHERE number % 10 = 0`))
	pgtest.Exec(t, p, l.Fill(`UPDATE {effects} SET answered_at = now() WHERE number % 10000 = 0`))
	for i := range 20 {
		issue(t, l, effect("r7", fmt.Sprint("open", i), 1))
	}
	list := func(q ledger.Query, want int) func() {
		return func() {
			n := 0
			for _, err := range l.Effects(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != want {
				t.Errorf("%+v selects %d effects, want %d", q, n, want)
			}
		}
	}
	epoch := int64(1)
	for _, known := range []string{"nothing", "statistics"} {
		p.Reset()                                            // plans are made anew
		issue(t, l, effect("warm "+known, "warm "+known, 1)) // and the catalog is read
		epoch++
		for what, do := range map[string]func(){
			"issue and finish": func() { finish(t, l, issue(t, l, effect("r8", "new "+known, 1)), paid) },
			"open":             list(ledger.Query{Open: true, Orchestrator: "bot", Session: "session of r7"}, 20),
			"run":              list(ledger.Query{RunID: "r9"}, 10),
			"session":          list(ledger.Query{Session: "s9"}, 100),
			"id":               list(ledger.Query{ID: "f9"}, 1),
			"answers":          list(ledger.Query{AnsweredWithin: time.Hour, Orchestrator: "bot", Brief: true}, 10),
			"adopt": func() {
				if err := l.Adopt(t.Context(), "r6", fence(epoch)); err != nil {
					t.Fatal(err)
				}
			},
		} {
			do() // plans, and what is read of the catalog once
			if what == "issue and finish" {
				do = func() { finish(t, l, issue(t, l, effect("r8", "newer "+known, 1)), paid) }
			}
			before := server.Blocks()
			do()
			if touched := server.Blocks() - before; touched > 400 {
				t.Errorf("with %s known, %s touches %d blocks", known, what, touched)
			} else {
				t.Logf("with %s known, %s: %d blocks", known, what, touched)
			}
		}
		pgtest.Exec(t, p, "ANALYZE")
	}
}

// A list of all effects looks at all of them a few times, and not once for each page. Prune takes many slices.
func TestListAll(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	const n = 45_000
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {effects} (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, epoch, nonce,
			args_sum, issued_at, attempts, state, finished_at)
		SELECT md5(i::text), 'bot', 's', 'r' || i, 0, i::text, 'n', '', '', 0, 1, 'n1', '', now(), 1, 'completed', now()
		FROM generate_series(1, $1::integer) i`), n)
	pgtest.Exec(t, p, l.Fill(`INSERT INTO {effect_fences} SELECT 'r' || i, 1, 'n1', now() FROM generate_series(1, 2500) i`))
	seen := 0
	for e, err := range l.Effects(t.Context(), ledger.Query{}) {
		if seen++; err != nil || e.Intent != fmt.Sprint(seen) {
			t.Fatalf("effect %d is %q: %v", seen, e.Intent, err)
		}
	}
	if seen != n {
		t.Errorf("%d effects, want %d", seen, n)
	}
	if pruned, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || pruned != n {
		t.Errorf("%d pruned, want %d: %v", pruned, n, err)
	}
	if left := pgtest.Value[int](t, p, l.Fill("SELECT count(*) FROM {effect_fences}")); left != 0 {
		t.Errorf("%d fences are left", left)
	}
}

// A list of the open effects of a bot has them all in their order, over several pages, and ends where the caller ends
// it.
func TestListOpen(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	const n = 4500
	pgtest.Exec(t, p, l.Fill(`
		INSERT INTO {effects} (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, epoch, nonce,
			args_sum, issued_at, attempts, state)
		SELECT md5(i::text), CASE WHEN i % 3 = 0 THEN 'other' ELSE 'bot' END, 's', 'r' || i, 0, i::text, 'n', '', '', 0, 1, 'n1',
			'', now(), 1, CASE WHEN i % 2 = 0 THEN 'issued' ELSE 'unknown' END
		FROM generate_series(1, $1::integer) i`), n*3/2)
	for _, most := range []int{n, n - 1, 2100, 17, 16, 1} {
		seen, want := 0, 0
		for e, err := range l.Effects(t.Context(), ledger.Query{Orchestrator: "bot", Open: true, Brief: true}) {
			if want++; want%3 == 0 {
				want++
			}
			if seen++; err != nil || e.Intent != fmt.Sprint(want) {
				t.Fatalf("effect %d is %q, want %d: %v", seen, e.Intent, want, err)
			}
			if seen == most {
				break
			}
		}
		if seen != most {
			t.Errorf("%d effects, want %d", seen, most)
		}
	}
	seen := 0
	for _, err := range l.Effects(t.Context(), ledger.Query{Orchestrator: "bot", Open: true, Brief: true}) {
		if seen++; err != nil {
			t.Fatal(err)
		}
	}
	if seen != n {
		t.Errorf("%d effects, want %d", seen, n)
	}
}

// If the server does not wait for its disk by default, all calls but Prune do. Now and then the server writes to its
// log for itself, so one round alone proves nothing.
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
		e := effect(fmt.Sprint("run", i), fmt.Sprint("e", i), 1)
		_, _, err := l.Issue(t.Context(), e, false)
		flushed("Issue", err)
		_, _, err = l.Issue(t.Context(), e, false)
		flushed("Issue of what is known", err)
		flushed("Adopt", l.Adopt(t.Context(), e.RunID, fence(2)))
		_, err = l.Finish(t.Context(), e.ID, 1, paid)
		flushed("Finish", err)
		_, err = l.Finish(t.Context(), e.ID, 1, paid)
		flushed("Finish that is not taken", err)
		e = effect(e.RunID, fmt.Sprint("pure", i), 2)
		e.Class = ledger.Pure
		_, err = l.Record(t.Context(), e)
		flushed("Record", err)
		_, err = l.Prune(t.Context(), time.Now().Add(time.Hour))
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
