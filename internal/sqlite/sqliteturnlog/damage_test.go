package sqliteturnlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A spoiled log damages the first entry of a run by hand.
type spoiled struct {
	*sqliteturnlog.Log
	db  *sql.DB
	set string
}

func (s spoiled) Damage(ctx context.Context, run string) error {
	_, err := s.db.ExecContext(ctx, "PRAGMA ignore_check_constraints = on")
	if err == nil {
		_, err = s.db.ExecContext(ctx, "UPDATE holdfast_phases SET "+s.set+" WHERE run = ?1 AND phase = 'started'", run)
	}
	_, off := s.db.ExecContext(ctx, "PRAGMA ignore_check_constraints = off")
	return errors.Join(err, off)
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"state = '{'", "state = CAST(x'ff' AS TEXT)", "phase = ''", "phase = CAST(x'ff' AS TEXT)", "at = -1", "at = 9e17",
	} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			turnlogtest.RunDamaged(t, func(t *testing.T) turnlogtest.DamagingLog {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				return spoiled{create(t, db, nil), db, set}
			})
		})
	}
}

// The row of a run may be damaged, or be missing, or be alone.
func TestDamagedRun(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		listed, restored bool
		reason           string
	}{
		"UPDATE holdfast_logged SET turn = -1 WHERE run = 'b'":                          {true, true, "turn -1"},
		"UPDATE holdfast_logged SET session = '' WHERE run = 'b'":                       {true, true, "session"},
		"UPDATE holdfast_logged SET first = 1 WHERE run = 'b'":                          {true, false, "differ"},
		"UPDATE holdfast_logged SET last = 1 WHERE run = 'b'":                           {true, false, "differ"},
		"DELETE FROM holdfast_logged WHERE run = 'b'":                                   {false, true, "is missing"},
		"DELETE FROM holdfast_phases WHERE run = 'b'":                                   {true, false, "differ"},
		"DELETE FROM holdfast_phases WHERE run = 'b' AND phase = 'started'":             {true, false, "differ"},
		"UPDATE holdfast_logged SET orchestrator = zeroblob(600) || '' WHERE run = 'b'": {true, true, "orchestrator"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			l := create(t, db, nil)
			for _, run := range []string{"a", "b", "c"} {
				record(t, l, entry(run, turnlog.Started, 0), entry(run, turnlog.LLMComplete, 1))
			}
			sqlitetest.Exec(t, db, "PRAGMA ignore_check_constraints = on")
			sqlitetest.Exec(t, db, text)
			if _, damaged := list(t, l, turnlog.Query{}); slices.Equal(damaged, []string{"b"}) != c.listed {
				t.Errorf("%q are listed as damaged", damaged)
			}
			if err := readAll(t.Context(), l); err != nil && !strings.Contains(err.Error(), c.reason) {
				t.Errorf("Turns: %v, want %q", err, c.reason)
			}
			for _, run := range []string{"a", "b", "c"} {
				_, err := l.Restore(t.Context(), run)
				if err != nil && !strings.Contains(err.Error(), c.reason) {
					t.Errorf("Restore of %s: %v, want %q", run, err, c.reason)
				}
				if is := errors.Is(err, turnlog.ErrDamaged); is != (c.restored && run == "b") || err != nil && !is {
					t.Errorf("Restore of %s: %v", run, err)
				}
			}
		})
	}
}

// If SQLite itself cannot read the state of an entry, this entry is damaged. The others can be read, and recorded.
func TestMalformedPage(t *testing.T) {
	path := sqlitetest.File(t)
	dsn := sqlitetest.DSN(path)
	db := sqlitetest.Open(t, dsn)
	l := create(t, db, nil)
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

	l = sqliteturnlog.New(sqlitetest.Open(t, dsn), nil)
	for _, q := range []turnlog.Query{{}, {Session: "session"}, {Open: true}} {
		if runs, damaged := list(t, l, q); !slices.Equal(runs, all) || !slices.Equal(damaged, all[torn:torn+1]) {
			t.Errorf("%+v: %q, of which damaged are %q", q, runs, damaged)
		}
	}
	for i, run := range all {
		entries, err := l.Restore(t.Context(), run)
		wantEntries := 2
		if i == torn {
			wantEntries = 1
			want(t, err, turnlog.ErrDamaged)
		} else {
			want(t, err, nil)
		}
		if len(entries) != wantEntries {
			t.Errorf("run %s has %d entries", run, len(entries))
		}
		record(t, l, entry(run, turnlog.Settled, 200))
	}
	again := entry(all[torn], turnlog.Started, torn)
	if err := l.Record(t.Context(), again); !errors.Is(err, turnlog.ErrDamaged) {
		t.Errorf("Record of the torn entry: %v", err)
	}
}
