package sqlitesnapshot_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

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
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			r := begin(t, s, "a")
			sqlitetest.Exec(t, db, "PRAGMA ignore_check_constraints = on; PRAGMA legacy_alter_table = on")
			sqlitetest.Exec(t, db, c.spoil)
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
			db := sqlitetest.Open(t, testenv.SQLite(t))
			db.SetMaxOpenConns(1)
			s := create(t, db, nil)
			r := begin(t, s, "a")
			want(t, s.Save(t.Context(), withPart(r, "a")), nil)
			sqlitetest.Exec(t, db, "PRAGMA ignore_check_constraints = on")
			sqlitetest.Exec(t, db, c.spoil)
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
