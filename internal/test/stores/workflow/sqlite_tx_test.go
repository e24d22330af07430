package workflow_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
)

// openFile returns the stores in a new file, with a table of the program.
func openFile(t *testing.T, o *sqlite.Options) (file *sql.DB, lite *sqlite.DB, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "runs.db")
	file = openPath(t, path)
	lite = sqlite.New(file, o)
	if err := lite.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	sqlitetest.Exec(t, file, "CREATE TABLE booked (cents INTEGER)")
	return file, lite, path
}

func openPath(t *testing.T, path string) *sql.DB {
	t.Helper()
	file, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

// What a step writes in its transaction commits with its journal row, or not at all. It needs one connection.
func TestSQLiteWriteTx(t *testing.T) {
	t.Parallel()
	file, lite, _ := openFile(t, nil)
	file.SetMaxOpenConns(1)
	fence := lock.Fence{Epoch: 1, Nonce: "n"}
	_, err := lite.Workflows().Start(t.Context(), []workflow.NewRun{{ID: "r", Workflow: "w", Owner: "p", Fence: fence}})
	wantErr(t, err, nil)
	errOther := errors.New("other")
	for _, c := range []struct {
		name         string
		entry        func(e *workflow.Entry)
		failed       error
		verdict, err error
		booked       int
	}{
		{"f fails", nil, errOther, nil, errOther, 0},
		{"another owner", func(e *workflow.Entry) { e.Fence.Epoch++ }, nil, lock.ErrFenced, nil, 0},
		{"mail", func(e *workflow.Entry) { e.Mail = 7 }, nil, workflow.ErrMail, nil, 0},
		{"another run", func(e *workflow.Entry) { e.Run = "x" }, nil, workflow.ErrNotFound, nil, 0},
		{"no name", func(e *workflow.Entry) { e.Steps[0].Name = "" }, nil, nil, workflow.ErrInvalid, 0},
		{"well", func(*workflow.Entry) {}, nil, nil, nil, 1},
		{"the journal has it", func(*workflow.Entry) {}, nil, nil, workflow.ErrInvalid, 1},
	} {
		verdict, err := lite.WriteTx(t.Context(), func(tx *sql.Tx) (e workflow.Entry, err error) {
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO booked VALUES (100)"); err != nil {
				return e, err
			}
			e = workflow.Entry{Run: "r", Fence: fence, Mail: -1, Steps: []workflow.Step{{
				Name: "book", Kind: workflow.KindStep, Outcome: workflow.Done, Attempts: 1,
			}}}
			if c.failed == nil {
				c.entry(&e)
			}
			return e, c.failed
		})
		asItIs := c.failed == nil || err.Error() == c.failed.Error()
		if !errors.Is(verdict, c.verdict) || !errors.Is(err, c.err) || !asItIs {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, verdict, err, c.verdict, c.err)
		}
		steps := count(t, file, "holdfast_workflow_steps")
		if n := count(t, file, "booked"); n != c.booked || steps != c.booked {
			t.Errorf("%s: %d are booked, and %d steps written, want %d", c.name, n, steps, c.booked)
		}
	}
}

// A run that is started, and a signal that is sent, in a transaction of the program are there if the transaction
// commits. The transaction may be of another *sql.DB on the file.
func TestSQLiteIn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, other := range map[string]bool{"its own": false, "another *sql.DB": true} {
		t.Run(name, func(t *testing.T) {
			file, lite, path := openFile(t, nil)
			s := workflow.NewClient(lite.Workflows())
			waiting, err := s.Start(ctx, "w", 1, nil)
			wantErr(t, err, nil)
			from := file
			if other {
				from = openPath(t, path)
			}
			from.SetMaxOpenConns(1)
			for _, commit := range []bool{false, true} {
				tx, err := from.BeginTx(ctx, nil)
				wantErr(t, err, nil)
				c := workflow.NewClient(lite.In(tx))
				started, err := c.Start(ctx, "w", 2, nil)
				wantErr(t, err, nil)
				receipt, err := c.Signal(ctx, waiting.ID, "go", nil, "once")
				if receipt != workflow.Kept || err != nil {
					t.Error(receipt, err)
				}
				if _, err := c.Get(ctx, started.ID); err != nil { // the transaction sees it
					t.Error(err)
				}
				_, err = tx.ExecContext(ctx, "INSERT INTO booked VALUES (1)")
				wantErr(t, err, nil)
				var found error
				if commit {
					wantErr(t, tx.Commit(), nil)
				} else {
					found = workflow.ErrNotFound
					wantErr(t, tx.Rollback(), nil)
				}
				_, err = s.Get(ctx, started.ID)
				wantErr(t, err, found)
			}
			if n := count(t, file, "holdfast_workflow_signals"); n != 1 {
				t.Errorf("%d signals are kept", n)
			}
		})
	}
}

// A transaction that does not keep the promises of the store is refused, before anything is written.
func TestSQLiteInRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, lite, path := openFile(t, nil)
	start := func(db *sql.DB, before func(tx *sql.Tx)) error {
		tx, err := db.BeginTx(ctx, nil)
		wantErr(t, err, nil)
		defer tx.Rollback()
		before(tx)
		_, err = workflow.NewClient(lite.In(tx)).Start(ctx, "w", 1, nil)
		return err
	}
	nothing := func(*sql.Tx) {}
	_, err := lite.Workflows().Counts(ctx) // the store knows its file from now on
	wantErr(t, err, nil)
	elsewhere, _, _ := openFile(t, nil)
	wantErr(t, start(elsewhere, nothing), sqlite.ErrDSN)
	unsafe := sqlitetest.Open(t, "file:"+path+"?_pragma=busy_timeout(5000)&_pragma=synchronous(NORMAL)")
	wantErr(t, start(unsafe, nothing), sqlite.ErrDSN)
	deferred := sqlitetest.Open(t, sqlitetest.DSN(path))
	err = start(deferred, func(tx *sql.Tx) { // it has read, and another has written since
		var n int
		wantErr(t, tx.QueryRowContext(ctx, "SELECT count(*) FROM booked").Scan(&n), nil)
		_, err := workflow.NewClient(lite.Workflows()).Start(ctx, "w", 1, nil)
		wantErr(t, err, nil)
	})
	if !errors.Is(err, workflow.ErrRefused) || !strings.Contains(err.Error(), "BEGIN IMMEDIATE") {
		t.Errorf("a transaction that has read: %v", err)
	}
	ended, cancel := context.WithCancel(ctx)
	tx, err := deferred.BeginTx(ctx, nil)
	wantErr(t, err, nil)
	defer tx.Rollback()
	cancel()
	_, err = lite.In(tx).Counts(ended)
	wantErr(t, err, context.Canceled)
}

// Runs and sessions of one database value have one beat of a process.
func TestSQLiteOnePulse(t *testing.T) {
	t.Parallel()
	_, lite, _ := openFile(t, nil)
	if pulse.Of(lite.Workflows()) != pulse.Of(lite.Checkpoints()) {
		t.Error("the stores of one database have two pulses")
	}
}

// The sweep of a database deletes the runs whose retention has passed, and heeds the cap.
func TestSQLiteSweeps(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	o := new(sqlite.Options)
	o.Ages.Workflows = 3 * 24 * 60 * 60 * 1e9
	file, lite, _ := openFile(t, o)
	c := workflow.NewClient(lite.Workflows())
	for range 3 {
		run, err := c.Start(ctx, "w", 1, &workflow.StartOptions{RetentionDays: 1000})
		wantErr(t, err, nil)
		_, err = c.Cancel(ctx, run.ID)
		wantErr(t, err, nil)
		r, err := c.Get(ctx, run.ID)
		if err != nil || r.RetentionDays != 3 {
			t.Errorf("kept for %d days, %v", r.RetentionDays, err)
		}
	}
	for _, want := range []int{0, 2, 1} {
		n, err := lite.Sweep(ctx, 2)
		if n != want || err != nil {
			t.Errorf("sweeps %d, %v, want %d", n, err, want)
		}
		if want == 0 {
			sqlitetest.Exec(t, file, "UPDATE holdfast_workflow_runs SET expires = expires - 4 * 86400000000")
		}
	}
}

// A transaction that SQLite certainly rolls back because of what the step did is told from one that is cut off, and
// leaves no step.
func TestSQLiteWriteTxAborted(t *testing.T) {
	t.Parallel()
	file, lite, _ := openFile(t, nil)
	file.SetMaxOpenConns(1)
	start(t, lite.Workflows(), "r")
	for _, sql := range []string{
		"CREATE TABLE parents (n INTEGER PRIMARY KEY)",
		"CREATE TABLE later (n INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)",
		"PRAGMA foreign_keys = ON",
	} {
		sqlitetest.Exec(t, file, sql)
	}
	for what, f := range map[string]func(ctx context.Context, tx *sql.Tx) error{
		"a constraint at the commit": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO later VALUES (1)")
			return err
		},
		"a conflict that rolls back": func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO parents VALUES (1), (1)")
			return nil
		},
		"a rollback of its own": func(_ context.Context, tx *sql.Tx) error { return tx.Rollback() },
	} {
		verdict, err := lite.WriteTx(t.Context(), func(tx *sql.Tx) (workflow.Entry, error) {
			e := workflow.Entry{Run: "r", Fence: starting("r").Fence, Mail: -1, Steps: []workflow.Step{{
				Name: "s", Kind: workflow.KindStep, Outcome: workflow.Done, Attempts: 1,
			}}}
			return e, f(t.Context(), tx)
		})
		if verdict != nil || !errors.Is(err, workflow.ErrAborted) {
			t.Errorf("%s: %v, %v", what, verdict, err)
		}
		if n := count(t, file, "holdfast_workflow_steps"); n != 0 {
			t.Errorf("%s: %d steps are written", what, n)
		}
		if _, err := lite.Workflows().Counts(t.Context()); err != nil {
			t.Errorf("%s: afterwards: %v", what, err)
		}
	}
}
