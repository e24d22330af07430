package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

var entries = contract{
	name: "turnlog",
	open: func(db *sql.DB, o options) store {
		return logStore{sqliteturnlog.New(db, &sqliteturnlog.Options{Prefix: o.prefix})}
	},
	tables:  []string{"holdfast_phases", "holdfast_logged"},
	longest: "logged_session",
	schema:  turnlog.ErrSchema, damaged: turnlog.ErrDamaged, refused: turnlog.ErrRefused,
	one:      is[*turnlog.DamagedError],
	verdicts: []error{turnlog.ErrInvalid, turnlog.ErrChanged, turnlog.ErrPhase, turnlog.ErrState},
	missing: []missing{
		{"table", "DROP TABLE holdfast_phases", "table holdfast_phases", "Prune"},
		{"runs", "DROP TABLE holdfast_logged", "table holdfast_logged", ""},
		{
			"column", "ALTER TABLE holdfast_logged DROP COLUMN started", "column started of table holdfast_logged",
			"Restore Turns Prune",
		},
	},
	unreachable: func(t *testing.T, s store) { turnlogtest.RunUnreachable(t, s.(logStore)) },

	// Turns of two entries that are settled. Each hundredth is open.
	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_logged (run, orchestrator, session, turn, first, last, started, settled, open)
		SELECT 'r' || i, 'bot', 's' || i / 10, 0, i * 10, i * 10 + 1, i * 10, CASE WHEN i % 100 THEN i * 10 + 1 END, NOT i % 100
		FROM n;
		INSERT INTO holdfast_phases (run, at, phase, state)
		SELECT run, first, 'started', '{}' FROM holdfast_logged
		UNION ALL SELECT run, last, CASE open WHEN 1 THEN 'llm-complete' ELSE 'settled' END, '{}' FROM holdfast_logged`,
	plans: map[string]string{
		"SELECT state FROM":                  "sqlite_autoindex_holdfast_phases_1 (run=? AND at=? AND phase=?)",
		"WHERE p.run = ?1":                   "sqlite_autoindex_holdfast_phases_1 (run=?)",
		"INDEXED BY holdfast_logged_first":   "holdfast_logged_first ((first,run)>(?,?))",
		"INDEXED BY holdfast_logged_open":    "holdfast_logged_open ((first,run)>(?,?))",
		"INDEXED BY holdfast_logged_session": "holdfast_logged_session (session=? AND (first,run)>(?,?))",
		"SELECT count(*)":                    "PRIMARY KEY (run>?",
		"DELETE FROM holdfast_phases":        "sqlite_autoindex_holdfast_phases_1 (run=?",
		"DELETE FROM holdfast_logged":        "PRIMARY KEY (run>?",
	},
	lists: func(t *testing.T, of store) []list {
		s := of.(logStore)
		return []list{{
			"all", named(s.Turns(t.Context(), turnlog.Query{Orchestrator: "bot"}), summarized), 1000,
			func(i int) string { return fmt.Sprint("r", i) },
			func(ctx context.Context, i int) error {
				return s.Record(ctx, entry(fmt.Sprint("r", i), "peer-call", 0))
			},
		}}
	},
	sweep: sweep{
		spoil: "UPDATE holdfast_logged SET settled = 9e14 WHERE settled > 20000",
		stays: func(i int) bool { return i >= 2000 || i%100 == 0 },
		call: func(ctx context.Context, s store, _ int) (int, error) {
			return s.(logStore).Prune(ctx, at(0))
		},
		left: "SELECT count(*) FROM holdfast_logged",
		rest: "SELECT count(*) FROM holdfast_phases WHERE run NOT IN (SELECT run FROM holdfast_logged)",
	},
	whole: []string{
		"SELECT count(*) FROM holdfast_logged WHERE run NOT IN (SELECT run FROM holdfast_phases)",
		"SELECT count(*) FROM holdfast_phases WHERE run NOT IN (SELECT run FROM holdfast_logged)",
	},
	convicts: map[string]broken{
		"order is lost": {"restore-order", []string{"ORDER BY p.at, p.phase", "ORDER BY p.at % 7"}},
		"the first entry is what came first": {
			"turns-summary",
			[]string{"first = min(first, excluded.first)", "first = first"},
		},
		"the number of the last entry": {"turns-number", []string{"max(turn, excluded.turn)", "excluded.turn"}},
		"started is that of the first": {"turns-anew", []string{
			"coalesce(max(started, excluded.started), started, excluded.started)", "coalesce(started, excluded.started)",
		}},
		"a list without ties": {"turns-pages", []string{
			"(l.first, l.run) > (?1, ?2)", "l.first > ?1 AND ?2 IS NOT NULL",
		}},
		"Prune takes what is open": {"prune-anew-settled", []string{"open = 0 AND coalesce(settled", "coalesce(settled"}},
		"Prune leaves the entries": {"prune-anew", []string{
			"WHERE run IN (SELECT run FROM holdfast_logged WHERE run > ?1",
			"WHERE run IN (SELECT run FROM holdfast_logged WHERE 0 AND run > ?1",
		}},
	},
	violations: func(ctx context.Context, open func() store, clause string) map[string]error {
		return turnlogtest.Violations(ctx, func() turnlog.Log { return open().(logStore) }, clause)
	},
	statements: func(t *testing.T, of store) []executed {
		s, e := of.(logStore), entry("run", turnlog.Started, 0)
		record := func(ctx context.Context) error { return s.Record(ctx, e) }
		restore := func(ctx context.Context) error { _, err := s.Restore(ctx, "run"); return err }
		prune := func(ctx context.Context) error { _, err := s.Prune(ctx, at(0)); return err }
		return []executed{
			{"Record", "BEGIN INSERT INSERT COMMIT", record},
			{"Record once more", "BEGIN INSERT SELECT", record},
			{"Restore", "SELECT", restore},
			{"Turns", "SELECT", s.read},
			{"Prune of nothing", "SELECT", prune},
		}
	},
	killed: func(db *sql.DB, say func(...any)) error {
		l := sqliteturnlog.New(db, nil)
		for n := 0; ; n++ {
			if err := l.Record(context.Background(), entry("run", turnlog.ToolReceived, n)); err != nil {
				return err
			}
			say(n)
		}
	},
	check: func(t *testing.T, s store, _ *sql.DB) func(string) {
		return func(last string) {
			n, err := strconv.Atoi(last)
			want(t, err, nil)
			all, err := s.(logStore).Restore(t.Context(), "run")
			if err != nil || len(all) <= n {
				t.Fatalf("%d entries, %v, and entry %d was acknowledged", len(all), err, n)
			}
			for i, e := range all {
				if !e.At.Equal(at(i)) {
					t.Fatalf("entry %d is of %v", i, e.At)
				}
			}
		}
	},
	contend:   contendForEntries,
	processes: entryProcesses,
	torn: torn{
		n: 40, at: 20,
		write: func(ctx context.Context, s store, i int, text string) error {
			e := entry(fmt.Sprintf("run %02d", i), turnlog.Started, i)
			e.State = json.RawMessage(`"` + text + `"`)
			l := s.(logStore)
			return errors.Join(l.Record(ctx, e), l.Record(ctx, entry(e.Run, turnlog.LLMComplete, 100)))
		},
		check: checkTornEntry,
	},
}

type logStore struct{ *sqliteturnlog.Log }

func at(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)).UTC() }

func entry(run, phase string, ms int) turnlog.Entry {
	return turnlog.Entry{
		Run: run, Turn: 3, Orchestrator: "bot", Session: "session", Phase: phase, State: json.RawMessage(`{"n":1}`), At: at(ms),
	}
}

func summarized(s turnlog.Summary) string { return s.First.Run }

func (s logStore) read(ctx context.Context) error { return yielded(s.Turns(ctx, turnlog.Query{})) }

var recorded atomic.Int64

func (s logStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	errs["Record"] = s.Record(ctx, entry("all", turnlog.ToolReceived, int(recorded.Add(1))))
	_, errs["Restore"] = s.Restore(ctx, "all")
	errs["Turns"] = s.read(ctx)
	_, errs["Prune"] = s.Prune(ctx, at(0))
	return errs
}

func (s logStore) ready(t *testing.T) []call {
	want(t, s.Record(t.Context(), entry("run", turnlog.Started, 0)), nil)
	return []call{
		{do: func(ctx context.Context) error { return s.Record(ctx, entry("run", turnlog.ToolReceived, 1)) }},
		{do: func(ctx context.Context) error { return s.Record(ctx, entry("run", turnlog.Settled, 9)) }},
		{reads: true, do: s.read},
	}
}

func (s logStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	e := entry(fmt.Sprint("run", n), turnlog.Started, 0)
	return cut{
		func(ctx context.Context) error { return s.Record(ctx, e) }, "0 entries", "1 entries",
		func() string {
			all, err := s.Restore(t.Context(), e.Run)
			want(t, err, nil)
			return fmt.Sprint(len(all), " entries")
		},
	}
}

const contendedEntries = 150

// Processes record the same entries at once. Each entry is there once, and each call succeeds. Of other states one
// stays.
func entryProcesses(t *testing.T, s store, _ *sql.DB, dsn string) {
	won := make(map[int]int)
	contended(t, "turnlog", dsn, 3, func(n int) { won[n]++ })
	for _, run := range []string{"same", "different"} {
		if all, err := s.(logStore).Restore(t.Context(), run); err != nil || len(all) != contendedEntries {
			t.Errorf("%s: %d entries, %v, want %d", run, len(all), err, contendedEntries)
		}
	}
	for n := range contendedEntries {
		if won[n] != 1 {
			t.Errorf("%d processes have recorded a state of their own as entry %d", won[n], n)
		}
	}
}

// contendForEntries records what the other processes record too, and an entry with a state of its own beside each.
func contendForEntries(db *sql.DB, say func(any)) error {
	l, ctx := sqliteturnlog.New(db, nil), context.Background()
	for n := range contendedEntries {
		if err := l.Record(ctx, entry("same", turnlog.ToolReceived, n)); err != nil {
			return err
		}
		own := entry("different", turnlog.ToolReceived, n)
		own.State = fmt.Appendf(nil, `{"pid":%d}`, os.Getpid())
		switch err := l.Record(ctx, own); {
		case err == nil:
			say(n)
		case !errors.Is(err, turnlog.ErrChanged):
			return err
		}
	}
	return nil
}

// If SQLite itself cannot read the state of an entry, this entry is damaged. The others can be read, and recorded.
func checkTornEntry(t *testing.T, of store, torn torn, _ string) {
	s := of.(logStore)
	for _, q := range []turnlog.Query{{}, {Session: "session"}, {Open: true}} {
		runs, damaged := damagedIn[*turnlog.DamagedError](t, named(s.Turns(t.Context(), q), summarized))
		if len(runs) != torn.n || !slices.IsSorted(runs) || !slices.Equal(damaged, runs[torn.at:torn.at+1]) {
			t.Errorf("%+v: %q, of which damaged are %q", q, runs, damaged)
		}
	}
	for i := range torn.n {
		run := fmt.Sprintf("run %02d", i)
		all, err := s.Restore(t.Context(), run)
		if i == torn.at {
			want(t, err, turnlog.ErrDamaged)
		} else {
			want(t, err, nil)
		}
		if whole := i != torn.at; len(all) == 2 != whole || len(all) == 0 {
			t.Errorf("run %s has %d entries", run, len(all))
		}
		want(t, s.Record(t.Context(), entry(run, turnlog.Settled, 200)), nil)
	}
	again := entry(fmt.Sprintf("run %02d", torn.at), turnlog.Started, torn.at)
	want(t, s.Record(t.Context(), again), turnlog.ErrDamaged)
}
