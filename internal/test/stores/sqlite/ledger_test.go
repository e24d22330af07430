package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

// What else is said of the ledger is in package stores/ledger.
var effects = contract{
	name: "ledger",
	open: func(db *sql.DB, o options) store {
		return effectStore{sqliteledger.New(db, &sqliteledger.Options{Prefix: o.prefix})}
	},
	tables:  []string{"holdfast_effects", "holdfast_effect_fences"},
	longest: "effects_session",
	schema:  ledger.ErrSchema, damaged: ledger.ErrDamaged, refused: ledger.ErrRefused,
	one:      is[*ledger.DamagedError],
	verdicts: []error{ledger.ErrInvalid, ledger.ErrNotFound, lock.ErrFenced},
	missing: []missing{
		{"table", "DROP TABLE holdfast_effects", "table holdfast_effects", ""},
		{"fences", "DROP TABLE holdfast_effect_fences", "table holdfast_effect_fences", "Finish Effects"},
		{
			"column", "ALTER TABLE holdfast_effects DROP COLUMN answered_by",
			"column answered_by of table holdfast_effects", "Adopt Prune",
		},
		{
			"newest column", "ALTER TABLE holdfast_effects DROP COLUMN unsure",
			"column unsure of table holdfast_effects", "Adopt Prune",
		},
	},
	unreachable: func(t *testing.T, s store) { ledgertest.RunUnreachable(t, s.(effectStore)) },

	// Effects that are finished, of runs with 10 effects each.
	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_effects (id, orchestrator, session, run_id, iteration, intent, name, each, key, class, state,
			attempts, epoch, nonce, args_sum, issued_at, finished_at, answered_by, error, args, result)
		SELECT 'old' || i, 'bot', 's' || (i / 100), 'r' || (i / 10), 0, '', 'pay', i, '', 0, 'completed', 1, 1, 'n', '', i, i,
			'', '', '{}', '{}'
		FROM n;
		INSERT INTO holdfast_effect_fences (run_id, epoch, nonce, since)
		SELECT DISTINCT run_id, 1, 'n', 1 FROM holdfast_effects WHERE true ON CONFLICT DO NOTHING`,
	plans: map[string]string{
		"SELECT epoch, nonce FROM holdfast_effect_fences WHERE":                                           "PRIMARY KEY (run_id=?)",
		"SET state = 'unknown', finished_at = ?4":                                                         "holdfast_effects_run (run_id=?)",
		"FROM holdfast_effects WHERE id = ?":                                                              byID,
		"UPDATE holdfast_effects AS e":                                                                    byID,
		"UPDATE holdfast_effects SET state = CASE":                                                        byID,
		"UPDATE holdfast_effects SET state = 'completed'":                                                 byID,
		"holdfast_effects NOT INDEXED WHERE number > ?1":                                                  "INTEGER PRIMARY KEY (rowid>?",
		"redacted, unsure, error, args, result FROM holdfast_effects INDEXED BY holdfast_effects_open":    "holdfast_effects_open (number>?",
		"redacted, unsure, '', NULL, NULL FROM holdfast_effects INDEXED BY holdfast_effects_open":         "holdfast_effects_open (number>?",
		"redacted, unsure, error, args, result FROM holdfast_effects INDEXED BY holdfast_effects_run":     "holdfast_effects_run (run_id=? AND rowid>?)",
		"redacted, unsure, '', NULL, NULL FROM holdfast_effects INDEXED BY holdfast_effects_run":          "holdfast_effects_run (run_id=? AND rowid>?)",
		"redacted, unsure, error, args, result FROM holdfast_effects INDEXED BY holdfast_effects_session": "holdfast_effects_session (session=? AND rowid>?)",
		"redacted, unsure, '', NULL, NULL FROM holdfast_effects INDEXED BY holdfast_effects_session":      "holdfast_effects_session (session=? AND rowid>?)",
		"FROM holdfast_effect_fences WHERE run_id > ?1":                                                   "PRIMARY KEY (run_id>?",
	},
	// The answers of a while are few. The others are Raise's.
	scans: []string{"holdfast_effects_answer", "nonce = 'raised'", "state = 'unknown', finished_at = ?1"},
	lists: func(t *testing.T, of store) []list {
		s := of.(effectStore)
		return []list{{
			"all", named(s.Effects(t.Context(), ledger.Query{Orchestrator: "bot"}), effectName), 1000,
			func(i int) string { return fmt.Sprint("old", i) },
			func(ctx context.Context, i int) error { return s.Adopt(ctx, fmt.Sprint("r", i/10), fence(2)) },
		}}
	},
	sweep: sweep{
		spoil: `UPDATE holdfast_effects SET finished_at = 9e15 WHERE issued_at % 7 = 0;
			UPDATE holdfast_effects SET state = 'unknown' WHERE issued_at % 11 = 0;
			UPDATE holdfast_effects SET key = 'k' WHERE issued_at % 13 = 0`,
		stays: func(i int) bool { return i%7 == 0 || i%11 == 0 || i%13 == 0 },
		call: func(ctx context.Context, s store, _ int) (int, error) {
			return s.(effectStore).Prune(ctx, time.Now())
		},
		left: "SELECT count(*) FROM holdfast_effects",
		rest: "SELECT count(*) FROM holdfast_effect_fences WHERE run_id NOT IN (SELECT run_id FROM holdfast_effects)",
	},
	statements: effectStatements,
	contend:    contendForEffects,
	processes:  effectProcesses,
	torn: torn{
		n: 40, at: 10, // in a page that is full
		write: func(ctx context.Context, s store, i int, text string) error {
			e := effect("run", fmt.Sprintf("e%02d", i))
			e.Args = json.RawMessage(`"` + text + `"`)
			now, _, err := s.(effectStore).Issue(ctx, e, false)
			if err == nil && i%2 == 0 { // unsure stands behind the arguments
				e.Attempts = now.Attempts
				_, _, err = s.(effectStore).Issue(ctx, e, true)
			}
			return err
		},
		check: checkTornEffect,
	},
}

const byID = "sqlite_autoindex_holdfast_effects_1 (id=?)"

type effectStore struct{ *sqliteledger.Ledger }

// effect returns an effect of a run of epoch 1 that is ready to be issued.
func effect(run, id string) ledger.Effect {
	return ledger.Effect{
		ID: id, Orchestrator: "bot", Session: "session of " + run, RunID: run, Intent: "pay", Name: "charge", Each: id,
		Fence: fence(1), Args: json.RawMessage(`{"cents":100}`), ArgsSum: "k:1",
	}
}

func effectName(e ledger.Effect) string { return e.ID }

var paid = ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"receipt"`)}

func (s effectStore) read(ctx context.Context) error { return yielded(s.Effects(ctx, ledger.Query{})) }

// kept returns the effect with an id, or one without a state.
func (s effectStore) kept(t *testing.T, id string) (found ledger.Effect) {
	t.Helper()
	for e, err := range s.Effects(t.Context(), ledger.Query{ID: id}) {
		want(t, err, nil)
		found = e
	}
	return found
}

func (s effectStore) issue(t *testing.T, run, id string) {
	t.Helper()
	if now, issued, err := s.Issue(t.Context(), effect(run, id), false); err != nil || !issued {
		t.Fatalf("Issue of %s: %+v, issued %t, %v", id, now, issued, err)
	}
}

var issued atomic.Int64

func (s effectStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	run := fmt.Sprint("all", issued.Add(1))
	e := effect(run, run)
	e.Class = ledger.Pure
	errs["Adopt"] = s.Adopt(ctx, run, e.Fence)
	_, _, errs["Issue"] = s.Issue(ctx, e, false)
	_, errs["Finish"] = s.Finish(ctx, e.ID, 1, paid)
	if errors.Is(errs["Finish"], ledger.ErrNotFound) {
		errs["Finish"] = errs["Issue"] // Issue could not write it
	}
	_, errs["Record"] = s.Record(ctx, e)
	errs["Effects"] = s.read(ctx)
	_, errs["Prune"] = s.Prune(ctx, time.Now().Add(-time.Hour))
	return errs
}

func (s effectStore) ready(t *testing.T) []call {
	s.issue(t, "run", "a")
	return []call{
		{do: func(ctx context.Context) error { _, _, err := s.Issue(ctx, effect("run", "b"), false); return err }},
		{do: func(ctx context.Context) error { return s.Adopt(ctx, "run", fence(2)) }},
		{do: func(ctx context.Context) error { _, err := s.Finish(ctx, "a", 1, paid); return err }},
		{reads: true, do: s.read},
	}
}

func (s effectStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	run := fmt.Sprint("run", n)
	e := effect(run, run+" a")
	c := cut{now: func() string { return string(s.kept(t, e.ID).State) }}
	become := func(state ledger.State, do func(ctx context.Context) error) { c.after, c.do = string(state), do }
	if n%4 == 1 || n%4 == 2 {
		s.issue(t, run, e.ID)
		c.before = string(ledger.Issued)
	}
	switch n % 4 {
	case 0:
		become(ledger.Issued, func(ctx context.Context) error { _, _, err := s.Issue(ctx, e, false); return err })
	case 1:
		become(ledger.Completed, func(ctx context.Context) error { _, err := s.Finish(ctx, e.ID, 1, paid); return err })
	case 2:
		become(ledger.Unknown, func(ctx context.Context) error { return s.Adopt(ctx, run, fence(2)) })
	case 3:
		e.Class, e.Result = ledger.Pure, paid.Result
		become(ledger.Completed, func(ctx context.Context) error { _, err := s.Record(ctx, e); return err })
	}
	return c
}

// A new effect is one statement, and its outcome another. Each commits by itself.
func effectStatements(t *testing.T, of store) []executed {
	s := of.(effectStore)
	s.issue(t, "run", "old")
	issue := func(run, id string) func(context.Context) error {
		return func(ctx context.Context) error { _, _, err := s.Issue(ctx, effect(run, id), false); return err }
	}
	finish := func(ctx context.Context) error { _, err := s.Finish(ctx, "a", 1, paid); return err }
	adopt := func(ctx context.Context) error { return s.Adopt(ctx, "run", fence(2)) }
	record := func(ctx context.Context) error {
		e := effect("run", "b")
		e.Class, e.Result = ledger.Pure, paid.Result
		_, err := s.Record(ctx, e)
		return err
	}
	anew := func(ctx context.Context) error {
		again := effect("run", "old")
		again.Attempts = 1
		_, _, err := s.Issue(ctx, again, true)
		return err
	}
	made := func(context.Context) error {
		if e := s.kept(t, "old"); e.Attempts != 2 || e.State != ledger.Unknown {
			t.Errorf("kept: %+v", e)
		}
		return nil
	}
	return []executed{
		{"Issue", "INSERT", issue("run", "a")},
		{"Issue once more", "INSERT SELECT", issue("run", "a")},
		{"Finish", "UPDATE", finish},
		{"Finish once more", "UPDATE SELECT", finish},
		{"Issue of what is known", "INSERT SELECT", issue("run", "a")},
		{"Record", "INSERT", record},
		{"Issue anew", "INSERT SELECT BEGIN INSERT SELECT SELECT UPDATE COMMIT", anew},
		{"Adopt", "BEGIN INSERT UPDATE COMMIT", adopt},
		{"Adopt once more", "BEGIN INSERT SELECT COMMIT", adopt},
		{"what they have made", "SELECT", made},
		{"first Issue of a run", "INSERT SELECT BEGIN INSERT UPDATE SELECT INSERT COMMIT", issue("other", "c")},
	}
}

// If SQLite itself cannot read the arguments of an effect, this effect is damaged. The others can be read, and written.
func checkTornEffect(t *testing.T, of store, torn torn, _ string) {
	s := of.(effectStore)
	at := fmt.Sprintf("e%02d", torn.at)
	for _, q := range []ledger.Query{{}, {RunID: "run"}, {Session: "session of run"}, {Open: true}, {ID: at}} {
		ids, damaged := damagedIn[*ledger.DamagedError](t, named(s.Effects(t.Context(), q), effectName))
		all := q.ID != "" && len(ids) == 1 || q.ID == "" && len(ids) == torn.n
		if !all || !slices.IsSorted(ids) || !slices.Equal(damaged, []string{at}) {
			t.Errorf("%+v: %q, of which damaged are %q", q, ids, damaged)
		}
	}
	for _, i := range []int{torn.at - 1, torn.at + 1} {
		_, err := s.Finish(t.Context(), fmt.Sprintf("e%02d", i), 1+(i+1)%2, paid)
		want(t, err, nil)
	}
	_, _, err := s.Issue(t.Context(), effect("run", at), true)
	want(t, err, ledger.ErrDamaged)
	_, _, other := s.Issue(t.Context(), effect("another run", at), false)
	_, completed := s.Finish(t.Context(), at, 1, paid)
	_, failed := s.Finish(t.Context(), at, 3, ledger.Outcome{State: ledger.Failed}) // of no attempt: only read
	for _, err := range []error{other, completed, failed} {
		if d, is := errors.AsType[*ledger.DamagedError](err); !is || d.ID != at {
			t.Errorf("got error %v, want a *DamagedError of %s", err, at)
		}
	}
}

const (
	leastCalls = 40 // of each goroutine, also on a slow machine
	leastMet   = 7  // of each op in each process, however long that takes
)

var ops = []string{"issued", "fenced", "kept", "booked"}

// A reply is one to a contending process.
type reply struct {
	Op, ID  string
	Attempt int
	Result  string // what is kept as the result
}

// Processes issue, adopt and finish the same effects at random. Each attempt is issued once, and each is told of the
// same result. What Tx has booked, it has booked once.
func effectProcesses(t *testing.T, of store, db *sql.DB, dsn string) {
	sqlitetest.Exec(t, db, "CREATE TABLE bookings (id TEXT)")
	issued := make(map[string]int)
	results := make(map[string]string)
	counts := make(map[string]int)
	contended(t, "ledger", dsn, 3, func(e reply) {
		counts[e.Op]++
		switch e.Op {
		case "issued":
			issued[fmt.Sprint(e.ID, " ", e.Attempt)]++
		case "kept":
			if known, ok := results[e.ID]; ok && known != e.Result {
				t.Errorf("effect %s has the results %s and %s", e.ID, known, e.Result)
			}
			results[e.ID] = e.Result
		}
	})
	for attempt, n := range issued {
		if n != 1 {
			t.Errorf("attempt %s is issued %d times", attempt, n)
		}
	}
	for id, result := range results {
		if e := of.(effectStore).kept(t, id); e.State != ledger.Completed || string(e.Result) != result {
			t.Errorf("effect %s is kept as %+v, want the result %s", id, e, result)
		}
	}
	if twice := count(t, db, `SELECT count(*) - count(DISTINCT id) FROM bookings`); twice != 0 {
		t.Errorf("%d bookings too many", twice)
	}
	for _, op := range ops {
		if counts[op] < 20 {
			t.Error("they hardly met")
		}
	}
	t.Log(counts)
}

// contendForEffects uses a ledger until each op has happened.
func contendForEffects(db *sql.DB, say func(any)) error {
	var mu sync.Mutex // protects what follows
	counts := make(map[string]int)
	tell := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		counts[r.Op]++
		say(r)
	}
	met := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(ops, func(op string) bool { return counts[op] < leastMet })
	}
	l := sqliteledger.New(db, nil)
	return together(leastCalls, met, func(int) error {
		return errors.Join(contendForEffect(l, tell), bookOnce(l, db, tell))
	})
}

// contendForEffect owns a run for one effect, if it can. It may go away in the middle.
func contendForEffect(l *sqliteledger.Ledger, say func(reply)) error {
	ctx := context.Background()
	slot := rand.N(3)
	minute := time.Now().UnixMilli() / 100
	id := fmt.Sprintf("effect %d of %d", slot, minute)
	e := effect(fmt.Sprintf("run %d of %d", slot, minute), id)
	nonce := fmt.Sprintf("%016x", rand.Uint64())
	e.Fence = lock.Fence{Epoch: time.Now().Add(-rand.N(10 * time.Millisecond)).UnixNano(), Nonce: nonce}
	now, issued, err := l.Issue(ctx, e, false)
	if err == nil && !issued {
		e.Attempts = now.Attempts
		now, issued, err = l.Issue(ctx, e, true)
	}
	switch {
	case errors.Is(err, lock.ErrFenced):
		say(reply{Op: "fenced", ID: id})
		return nil
	case err != nil:
		return err
	case !issued:
		say(reply{Op: "kept", ID: id, Result: string(now.Result)})
		return nil
	}
	say(reply{Op: "issued", ID: id, Attempt: now.Attempts})
	if rand.N(2) == 0 {
		return nil
	}
	o := ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"` + nonce + `"`)}
	if now, err = l.Finish(ctx, id, now.Attempts, o); err == nil {
		say(reply{Op: "kept", ID: id, Result: string(now.Result)})
	}
	return err
}

// bookOnce books what another goroutine or process may be booking as well, under a Key.
func bookOnce(l *sqliteledger.Ledger, db *sql.DB, say func(reply)) error {
	ctx := context.Background()
	id := fmt.Sprintf("booking %d of %d", rand.N(3), time.Now().UnixMilli()/10)
	e := effect(fmt.Sprintf("run %016x", rand.Uint64()), id)
	e.Key = id
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	_, err = sqliteledger.Tx(ctx, l, tx, e, func(ctx context.Context) (string, error) {
		_, err := tx.ExecContext(ctx, "INSERT INTO bookings (id) VALUES (?1)", id)
		return "receipt of " + id, err
	})
	if err != nil || rand.N(3) == 0 {
		return err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	say(reply{Op: "booked", ID: id})
	return nil
}
