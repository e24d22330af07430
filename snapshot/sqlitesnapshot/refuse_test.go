package sqlitesnapshot_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/sqlitesnapshot"
)

const (
	busy = "_pragma=busy_timeout(5000)"
	wal  = "_pragma=journal_mode(WAL)"
	full = "_pragma=synchronous(FULL)"
)

func TestDSN(t *testing.T) {
	for i, c := range []struct{ dsn, fault string }{
		{busy + "&" + wal + "&" + full, ""},
		{busy + "&" + wal + "&_pragma=synchronous(EXTRA)", ""},
		{busy + "&" + full, "journal_mode is delete"},
		{busy + "&" + wal + "&_pragma=synchronous(NORMAL)", "synchronous is 1"},
		{wal + "&" + full, "busy_timeout is 0"},
		{busy + "&_pragma=encoding('UTF-16le')&" + wal + "&" + full, "encoding is UTF-16le"},
		{busy + "&" + wal + "&" + full + "&mode=memory", "journal_mode is memory"},
	} {
		t.Run(fmt.Sprint(i, c.fault), func(t *testing.T) {
			s := create(t, open(t, "file:"+filepath.Join(t.TempDir(), "test.db")+"?"+c.dsn), nil)
			for method, err := range callAll(t.Context(), s) {
				switch {
				case c.fault == "" && err != nil:
					t.Errorf("%s: %v", method, err)
				case c.fault != "" &&
					(!errors.Is(err, sqlitesnapshot.ErrDSN) || !strings.Contains(err.Error(), c.fault) ||
						!strings.Contains(err.Error(), wal)):
					t.Errorf("%s: %v, want %v with %q and the remedy", method, err, sqlitesnapshot.ErrDSN, c.fault)
				}
			}
		})
	}
}

func TestSchemaMissing(t *testing.T) {
	for _, c := range []struct{ name, spoil, missing, skip string }{
		{"table", "DROP TABLE holdfast_runs", "table holdfast_runs", ""},
		{"parts", "DROP TABLE holdfast_run_parts", "table holdfast_run_parts", "Adopt Save Runs Delete Sweep"},
		{"column", "ALTER TABLE holdfast_runs DROP COLUMN base", "column base of table holdfast_runs", "Delete Sweep"},
	} {
		for _, when := range []string{"before", "after"} {
			t.Run(c.name+" "+when+" the first use", func(t *testing.T) {
				db := open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(1)
				s := create(t, db, nil)
				if when == "after" {
					callAll(t.Context(), s)
				}
				mustExec(t, db, c.spoil)
				for method, err := range callAll(t.Context(), s) {
					if when == "after" && strings.Contains(c.skip, method) {
						// This call does not touch the missing table.
						continue
					}
					if !errors.Is(err, snapshot.ErrSchema) || !strings.Contains(err.Error(), c.missing) ||
						!strings.Contains(err.Error(), "migrations.Up") {
						t.Errorf("%s: %v, want %v naming %s and the remedy", method, err, snapshot.ErrSchema, c.missing)
					}
				}
				mustExec(t, db, "DROP TABLE IF EXISTS holdfast_runs; DROP TABLE IF EXISTS holdfast_run_parts")
				mustExec(t, db, s.Schema())
				for method, err := range callAll(t.Context(), s) {
					if err != nil {
						t.Errorf("%s after the remedy: %v", method, err)
					}
				}
			})
		}
	}
}

// A store refuses a row that no store has written. It does not guess, and does not repair the row.
func TestMalformed(t *testing.T) {
	for _, c := range []struct{ spoil, says string }{
		{`UPDATE holdfast_runs SET payload = '{'`, "payload"},
		{`UPDATE holdfast_runs SET payload = '"\u0000"'`, "payload"},
		{`UPDATE holdfast_runs SET id = ''`, "run id"},
		{`UPDATE holdfast_runs SET status = 'done'`, "done"},
		{`UPDATE holdfast_runs SET turn = -1`, "turn -1"},
		{`UPDATE holdfast_runs SET attempt = 9e12`, "attempt 9"},
		{`UPDATE holdfast_runs SET seq = -1`, "seq -1"},
		{`UPDATE holdfast_runs SET base = CAST(x'ff' AS TEXT)`, "base"},
		{`UPDATE holdfast_runs SET error = CAST(zeroblob(70000) AS TEXT)`, "error"},
		{loosely + `UPDATE holdfast_runs SET saved_at = 'yesterday'`, "saved_at"},
		{loosely + `UPDATE holdfast_runs SET not_before = 'tomorrow'`, "not_before"},
		{loosely + `UPDATE holdfast_runs SET request_id = NULL`, "request_id"},
	} {
		t.Run(c.spoil, func(t *testing.T) {
			db := open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			r := begin(t, s, "a")
			mustExec(t, db, "PRAGMA ignore_check_constraints = on; PRAGMA legacy_alter_table = on")
			mustExec(t, db, c.spoil)
			_, begun := s.Begin(t.Context(), r)
			for method, err := range map[string]error{
				"Begin": begun, "Adopt": adopt(t.Context(), s, r, fence(2)), "Runs": readAll(t.Context(), s),
			} {
				if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %v that says %q", method, err, snapshot.ErrDamaged, c.says)
				}
			}
		})
	}
}

// loosely makes a table that takes any value.
const loosely = `DROP INDEX holdfast_runs_inflight;
	ALTER TABLE holdfast_runs RENAME TO strict; CREATE TABLE holdfast_runs AS SELECT * FROM strict;
	CREATE UNIQUE INDEX loose ON holdfast_runs (orchestrator, session);
	CREATE INDEX holdfast_runs_inflight ON holdfast_runs (orchestrator, session) WHERE deleted_at IS NULL;`

// The parts of a run are judged like its payload, when they are read.
func TestMalformedParts(t *testing.T) {
	for _, c := range []struct{ spoil, says string }{
		{`UPDATE holdfast_run_parts SET doc = '{'`, `part "a"`},
		{`UPDATE holdfast_run_parts SET doc = '"\u0000"'`, `part "a"`},
		{`UPDATE holdfast_run_parts SET name = ''`, "part"},
		{`UPDATE holdfast_run_parts SET name = CAST(x'ff' AS TEXT)`, "part"},
	} {
		t.Run(c.spoil, func(t *testing.T) {
			db := open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			r := begin(t, s, "a")
			want(t, s.Save(t.Context(), withPart(r, "a")), nil)
			mustExec(t, db, "PRAGMA ignore_check_constraints = on")
			mustExec(t, db, c.spoil)
			err := adopt(t.Context(), s, r, fence(2))
			if !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v that says %q", err, snapshot.ErrDamaged, c.says)
			}
			want(t, readAll(t.Context(), s), nil)
			want(t, s.Delete(t.Context(), r.Key, r.ID, fence(2)), nil)
			wantTidy(t, db)
		})
	}
}

// A store looks for a run's ID in its session only. A run of another session with the same ID is another run.
func TestIDElsewhere(t *testing.T) {
	s := newStore(t, nil)
	r := begin(t, s, "a")
	other := run("b")
	other.ID = r.ID
	for range 2 {
		if in, err := s.Begin(t.Context(), other); err != nil || in != nil {
			t.Fatalf("Begin finds %v, %v", in, err)
		}
		saved := next(other)
		want(t, s.Save(t.Context(), saved), nil)
		if in := inFlight(t, s, "b"); timeless(in) != timeless(&saved) {
			t.Errorf("%v is in flight", timeless(in))
		}
		want(t, s.Delete(t.Context(), other.Key, other.ID, other.Fence), nil)
		if in := inFlight(t, s, "a"); timeless(in) != timeless(&r) {
			t.Errorf("%v is in flight", timeless(in))
		}
		other.Fence = fence(2)
	}
	b := run("b")
	b.ID, b.Fence = "another", fence(3)
	for _, late := range []snapshot.Run{b, other} {
		if in, err := s.Begin(t.Context(), late); err != nil || in != nil && in.ID != b.ID ||
			in == nil && late.ID != b.ID {
			t.Errorf("Begin of %s finds %v, %v", late.ID, timeless(in), err)
		}
	}
	other.Fence = b.Fence
	want(t, s.Save(t.Context(), next(other)), lock.ErrFenced)
	want(t, s.Delete(t.Context(), other.Key, other.ID, other.Fence), nil)
	for session, r := range map[string]*snapshot.Run{"a": &r, "b": &b} {
		if in := inFlight(t, s, session); timeless(in) != timeless(r) {
			t.Errorf("%v is in flight", timeless(in))
		}
	}
}

// A run waits from the time of its save on. The NotBefore of the caller makes no difference.
func TestNotBefore(t *testing.T) {
	s := newStore(t, nil)
	for i, pause := range []time.Duration{0, 1, time.Microsecond, 1500, time.Hour, 366 * 24 * time.Hour} {
		r := run(fmt.Sprint(i))
		r.Pause, r.NotBefore = pause, time.Unix(1e9, 0)
		if _, err := s.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		saved := next(run(fmt.Sprint(i, "saved")))
		begin(t, s, saved.Session)
		saved.Pause, saved.NotBefore = pause, r.NotBefore
		want(t, s.Save(t.Context(), saved), nil)
		for _, session := range []string{r.Session, saved.Session} {
			in := inFlight(t, s, session)
			waits := in.NotBefore.Sub(in.SavedAt)
			switch {
			case in.Pause < 0, in.Pause > pause+time.Microsecond,
				in.Pause < pause-time.Since(in.SavedAt)-time.Microsecond:
				t.Errorf("pause of %v, %v after it was saved, want %v", in.Pause, time.Since(in.SavedAt), pause)
			case pause == 0 && in.NotBefore.IsZero():
			case (waits-pause).Abs() > time.Microsecond || in.NotBefore.Location() != time.UTC:
				t.Errorf("not before %v, saved at %v, want %v later", in.NotBefore, in.SavedAt, pause)
			}
		}
	}
}

func TestClosed(t *testing.T) {
	db := open(t, testenv.SQLite(t))
	used, unused := create(t, db, nil), sqlitesnapshot.New(db, nil)
	begin(t, used, "a")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*sqlitesnapshot.Store{used, unused} {
		for method, err := range callAll(t.Context(), s) {
			if err == nil || errors.Is(err, snapshot.ErrSchema) || errors.Is(err, sqlitesnapshot.ErrDSN) ||
				errors.Is(err, snapshot.ErrInvalid) || errors.Is(err, lock.ErrFenced) {
				t.Errorf("%s on a closed database: %v", method, err)
			}
		}
	}
}

func TestInvalidPrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": true, "_": true, "App_2_": true, strings.Repeat("x", 50): true,
		"2a": false, "a.b": false, `a"`: false, "SQLite_": false, strings.Repeat("x", 51): false,
	} {
		func() {
			defer func() {
				if r := recover(); (r == nil) != valid {
					t.Errorf("New with prefix %q panics with %v", prefix, r)
				}
			}()
			sqlitesnapshot.New(nil, &sqlitesnapshot.Options{Prefix: prefix})
		}()
	}
}

func TestTwoPrefixes(t *testing.T) {
	db := open(t, testenv.SQLite(t))
	begin(t, create(t, db, nil), "a")
	begin(t, create(t, db, &sqlitesnapshot.Options{Prefix: "b_"}), "a")
}
