package turnlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A spoiled log damages the first entry of a run by hand.
type spoiled struct {
	turnlog.Lister
	spoil func(ctx context.Context, run string) error
}

func (s spoiled) Damage(ctx context.Context, run string) error { return s.spoil(ctx, run) }

const first = " WHERE run = '%s' AND phase = 'started'"

// A writable is a log that can be changed by hand. exec executes a statement that the log would never send.
type writable struct {
	turnlog.Lister
	exec func(ctx context.Context, text string) error
}

// writables return an empty log, by database.
var writables = map[string]func(t *testing.T) writable{
	"postgres": func(t *testing.T) writable { return inTables(t, pgtest.EmptyPool(t)) },
	"sqlite": func(t *testing.T) writable {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		exec := func(ctx context.Context, text string) error { return unchecked(ctx, db, text) }
		return writable{onSQLite(t, db, ""), exec}
	},
}

func inTables(t *testing.T, p *pgxpool.Pool) writable {
	return writable{onPostgres.On(t, p, ""), func(ctx context.Context, text string) error {
		_, err := p.Exec(ctx, text)
		return err
	}}
}

// unchecked executes a statement that the constraints of the tables would not let pass.
func unchecked(ctx context.Context, db *sql.DB, text string) error {
	_, err := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on")
	if err == nil {
		_, err = db.ExecContext(ctx, text)
	}
	_, off := db.ExecContext(ctx, "PRAGMA ignore_check_constraints = off")
	return errors.Join(err, off)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for database, all := range map[string][]string{
		"postgres": {
			"phase = ''", "phase = repeat('p', 200)", "at = at - interval '1 microsecond'", "at = '1960-01-01Z'",
			"at = 'infinity'", "at = '-infinity'",
		},
		"sqlite": {
			"state = '{'", "state = CAST(x'ff' AS TEXT)", "phase = ''", "phase = CAST(x'ff' AS TEXT)", "at = -1", "at = 9e17",
		},
	} {
		for _, set := range all {
			t.Run(database+"/"+set, func(t *testing.T) {
				t.Parallel()
				turnlogtest.RunDamaged(t, func(t *testing.T) turnlogtest.DamagingLog {
					l := writables[database](t)
					return spoiled{l.Lister, func(ctx context.Context, run string) error {
						return l.exec(ctx, "UPDATE holdfast_phases SET "+set+fmt.Sprintf(first, run))
					}}
				})
			})
		}
	}
}

// A harm is a statement about run b, and who says then that it is damaged. reason is in that error.
type harm struct {
	text             string
	listed, restored bool
	reason           string
}

var harms = []harm{
	{"UPDATE holdfast_logged SET turn = -1 WHERE run = 'b'", true, true, "turn -1"},
	{"UPDATE holdfast_logged SET session = '' WHERE run = 'b'", true, true, "session"},
	{"DELETE FROM holdfast_logged WHERE run = 'b'", false, true, "is missing"},
}

var harmsOf = map[string][]harm{
	"postgres": {
		{"DELETE FROM holdfast_phases WHERE run = 'b'", true, false, "without entries"},
		{"DELETE FROM holdfast_phases WHERE run = 'b' AND phase = 'started'", true, false, "does not begin"},
		{"UPDATE holdfast_logged SET first = '2000-01-01Z' WHERE run = 'b'", true, false, "does not begin"},
		{"UPDATE holdfast_logged SET first = 'infinity' WHERE run = 'b'", true, false, ""},
		{"UPDATE holdfast_logged SET first = '-infinity' WHERE run = 'b'", true, false, ""},
		{"UPDATE holdfast_logged SET orchestrator = repeat('x', 600) WHERE run = 'b'", true, true, "orchestrator"},
	},
	"sqlite": {
		{"DELETE FROM holdfast_phases WHERE run = 'b'", true, false, "differ"},
		{"DELETE FROM holdfast_phases WHERE run = 'b' AND phase = 'started'", true, false, "differ"},
		{"UPDATE holdfast_logged SET first = 1 WHERE run = 'b'", true, false, "differ"},
		{"UPDATE holdfast_logged SET last = 1 WHERE run = 'b'", true, false, "differ"},
		{"UPDATE holdfast_logged SET orchestrator = zeroblob(600) || '' WHERE run = 'b'", true, true, "orchestrator"},
	},
}

// The row of a run may be damaged, or be missing, or be alone.
func TestDamagedRun(t *testing.T) {
	t.Parallel()
	for database, more := range harmsOf {
		for _, h := range slices.Concat(harms, more) {
			t.Run(database+"/"+h.text, func(t *testing.T) {
				t.Parallel()
				h.check(t, writables[database](t))
			})
		}
	}
}

func (h harm) check(t *testing.T, l writable) {
	for _, run := range []string{"a", "b", "c"} {
		record(t, l, entry(run, turnlog.Started, 0), entry(run, turnlog.LLMComplete, 1))
	}
	check(t, l.exec(t.Context(), h.text))
	says := func(err error) bool {
		return errors.Is(err, turnlog.ErrDamaged) && strings.Contains(err.Error(), h.reason)
	}
	damaged := 0
	for s, err := range l.Turns(t.Context(), turnlog.Query{}) {
		if d, is := errors.AsType[*turnlog.DamagedError](err); is && d.ID == "b" && says(err) {
			damaged++
		} else if err != nil || s.First.Run == "b" {
			t.Errorf("turn of %q: %v, want %q", s.First.Run, err, h.reason)
		}
	}
	if (damaged == 1) != h.listed {
		t.Errorf("%d are listed as damaged", damaged)
	}
	for _, run := range []string{"a", "b", "c"} {
		_, err := l.Restore(t.Context(), run)
		if is := says(err); is != (h.restored && run == "b") || err != nil && !is {
			t.Errorf("Restore of %s: %v, want %q", run, err, h.reason)
		}
	}
}

// A page may end with a run that begins at an infinite time. The next page goes on behind it.
func TestPostgresEndlessPages(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"infinity", "-infinity"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			l := writables["postgres"](t)
			const turns, damaged = 100, 20
			for i := range turns {
				record(t, l, entry(fmt.Sprintf("run%03d", i), turnlog.Started, 0))
			}
			check(t, l.exec(t.Context(),
				fmt.Sprintf("UPDATE holdfast_logged SET first = '%s' WHERE run < 'run%03d'", first, damaged)))
			all, endless, err := list(t.Context(), l, turnlog.Query{})
			check(t, err)
			slices.Sort(all)
			if len(slices.Compact(all)) != turns || len(all) != turns || len(endless) != damaged {
				t.Errorf("%d turns, of which %d are damaged: %q", len(all), len(endless), all)
			}
		})
	}
}

// An entry that the server itself cannot read is damaged, as is an entry that no log wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	n := 0
	torn := func(t *testing.T) turnlogtest.DamagingLog {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		l := onPostgres.On(t, p, prefix)
		pgtest.Exec(t, p, "ALTER TABLE "+prefix+"phases ALTER COLUMN state SET STORAGE EXTERNAL")
		return spoiled{l, func(ctx context.Context, run string) error {
			long := "UPDATE " + prefix + "phases SET state = to_jsonb(repeat('x', 10000))" + fmt.Sprintf(first, run)
			if _, err := p.Exec(ctx, long); err != nil {
				return err
			}
			return testenv.LoseChunk(ctx, p, prefix+"phases")
		}}
	}
	turnlogtest.RunDamaged(t, torn)

	l := torn(t)
	record(t, l, entry("run", turnlog.Started, 0))
	check(t, l.Damage(t.Context(), "run"))
	if err := l.Record(t.Context(), entry("run", turnlog.Started, 0)); !errors.Is(err, turnlog.ErrDamaged) {
		t.Errorf("Record of the lost entry: %v, want %v", err, turnlog.ErrDamaged)
	}
}

// If SQLite itself cannot read the state of an entry, this entry is damaged. The others can be read, and recorded.
func TestSQLiteMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	db := sqlitetest.Open(t, sqlitetest.DSN(path))
	l := onSQLite(t, db, "")
	const turns, torn = 40, 20
	text := func(i int) string { return strings.Repeat(fmt.Sprintf("argument %02d ", i), 1000) }
	var all []string
	for i := range turns {
		e := entry(fmt.Sprintf("run %02d", i), turnlog.Started, i)
		e.State = json.RawMessage(`"` + text(i) + `"`)
		record(t, l, e, entry(e.Run, turnlog.LLMComplete, 100))
		all = append(all, e.Run)
	}
	sqlitetest.Exec(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
	db.Close()
	testenv.TearSQLite(t, path, text(torn)[:22])

	l = onSQLite(t, sqlitetest.Open(t, sqlitetest.DSN(path)), "")
	for _, q := range []turnlog.Query{{}, {Session: "session"}, {Open: true}} {
		got, damaged, err := list(t.Context(), l, q)
		if !slices.Equal(got, all) || !slices.Equal(damaged, all[torn:torn+1]) || err != nil {
			t.Errorf("%+v: %q, of which damaged are %q, %v", q, got, damaged, err)
		}
	}
	for i, run := range all {
		entries, err := l.Restore(t.Context(), run)
		if i == torn && (!errors.Is(err, turnlog.ErrDamaged) || len(entries) != 1) ||
			i != torn && (err != nil || len(entries) != 2) {
			t.Errorf("run %s has %d entries, %v", run, len(entries), err)
		}
		record(t, l, entry(run, turnlog.Settled, 200))
	}
	again := entry(all[torn], turnlog.Started, torn)
	if err := l.Record(t.Context(), again); !errors.Is(err, turnlog.ErrDamaged) {
		t.Errorf("Record of the torn entry: %v", err)
	}
}
