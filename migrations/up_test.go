package migrations_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast/internal/test/leaktest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
)

// wantRecordedOnce fails unless each migration has one row in the version table, and its tables are there.
func wantRecordedOnce(t *testing.T, sys system, dsn string) {
	t.Helper()
	db := connect(t, sys, dsn)
	var want []string
	for _, s := range provider(t, sys, db, "unused").ListSources() {
		want = append(want, strconv.FormatInt(s.Version, 10))
	}
	got := column(t, db, "SELECT version_id FROM holdfast_schema_version WHERE version_id > 0 ORDER BY version_id")
	if !slices.Equal(got, want) {
		t.Errorf("recorded: %q, want %q", got, want)
	}
	if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
		t.Error(err)
	}
}

func TestUpAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		if err := upAtOnce(t.Context(), sys, dsn, 20); err != nil {
			t.Fatal(err)
		}
		wantRecordedOnce(t, sys, dsn)
	})
}

// wantApplied fails unless each of the witnesses was applied once, in their order.
func wantApplied(t *testing.T, sys system, dsn string) {
	t.Helper()
	db := connect(t, sys, dsn)
	for _, query := range []string{
		"SELECT n FROM holdfast_witness",
		"SELECT version_id FROM holdfast_schema_version WHERE version_id > 0 ORDER BY id",
	} {
		if got := column(t, db, query); !slices.Equal(got, []string{"1", "2", "3"}) {
			t.Errorf("%s: %q", query, got)
		}
	}
}

func TestEachIsAppliedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		err := atOnce(sys, dsn, 20, func(db *sql.DB) error {
			return migrations.UpTexts(t.Context(), db, sys.dialect, witnesses...)
		})
		if err != nil {
			t.Fatal(err)
		}
		wantApplied(t, sys, dsn)
	})
}

func TestUpAtOnceUnderStrictDefaults(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		dsn := with(freshSchema(t), "default_transaction_isolation", level)
		if err := upAtOnce(t.Context(), onPostgres, dsn, 20); err != nil {
			t.Fatal(err)
		}
		wantRecordedOnce(t, onPostgres, dsn)
	}
}

// With the driver's defaults no call waits for a lock, and readers keep writers out.
func TestUpAtOnceWithoutBusyTimeout(t *testing.T) {
	t.Parallel()
	dsn := "file:" + t.TempDir() + "/test.db"
	if err := upAtOnce(t.Context(), onSQLite, dsn, 20); err != nil {
		t.Fatal(err)
	}
	wantRecordedOnce(t, onSQLite, dsn)
}

func TestUpInSeveralProcesses(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	var children []*exec.Cmd
	var inputs []io.Closer
	for range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dsn)
		cmd.Stderr = new(bytes.Buffer)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children, inputs = append(children, cmd), append(inputs, in)
	}
	for _, in := range inputs {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, cmd := range children {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stderr)
		}
	}
	wantApplied(t, onSQLite, dsn)
}

// Another process has claimed the first migration and does not continue.
func TestUpWaits(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		db := connect(t, sys, dsn)
		up(t, sys, db)
		if _, err := provider(t, sys, db, "holdfast_schema_version").DownTo(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		tx, err := connect(t, sys, dsn).Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO holdfast_schema_version (version_id, is_applied) VALUES ($1, $2)",
			1, true); err != nil {
			t.Fatal(err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := migrations.Up(ctx, db, sys.dialect); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while it waited: %v", err)
		}

		done := make(chan error)
		go func() { done <- migrations.Up(t.Context(), db, sys.dialect) }()
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Errorf("after the other gave up: %v", err)
		}
		wantRecordedOnce(t, sys, dsn)
	})
}

// A failed migration leaves nothing. The tables that stood in its way can be removed.
func TestUpFails(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		db := connect(t, sys, dsn)
		must(t, db, "CREATE TABLE holdfast_turns (n integer)")
		if err := migrations.Up(t.Context(), db, sys.dialect); err == nil {
			t.Fatal("it created an index on a column that is not there")
		}
		if n := column(t, db, "SELECT count(*) FROM holdfast_schema_version WHERE version_id > 0"); n[0] != "0" {
			t.Errorf("%s migrations are recorded", n)
		}
		must(t, db, "DROP TABLE holdfast_turns")
		wantSame(t, "what is left", catalog(t, sys, db), nil)
		up(t, sys, db)
		wantRecordedOnce(t, sys, dsn)
	})
}

// With one connection there is no second connection for a lock.
func TestUpOnOneConnection(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		db := connect(t, sys, sys.fresh(t))
		db.SetMaxOpenConns(1)
		for range 2 {
			up(t, sys, db)
		}
		if err := migrations.Check(t.Context(), db, sys.dialect); err != nil {
			t.Error(err)
		}
	})
}

// These are the modes that poolers need. The role may write times in any style.
func TestUpInQueryExecModes(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"cache_describe", "describe_exec", "exec", "simple_protocol"} {
		dsn := with(with(freshSchema(t), "default_query_exec_mode", mode), "DateStyle", "German")
		for range 2 {
			up(t, onPostgres, connect(t, onPostgres, dsn))
		}
		wantRecordedOnce(t, onPostgres, dsn)
	}
}

func TestUpToDateOnlyReads(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		up(t, sys, connect(t, sys, dsn))
		readOnly := connect(t, sys, readOnly(sys, dsn))
		up(t, sys, readOnly)
		if err := migrations.Check(t.Context(), readOnly, sys.dialect); err != nil {
			t.Error(err)
		}
	})
}

// A newer version of the package has migrated the database. Check says so, for programs that want to know. Up does not:
// what this version needs is there, so an old process may start again in a deploy, or after a rollback.
func TestNewerSchema(t *testing.T) {
	onEach(t, func(t *testing.T, sys system) {
		dsn := sys.fresh(t)
		db := connect(t, sys, dsn)
		up(t, sys, db)
		must(t, db, "INSERT INTO holdfast_schema_version (version_id, is_applied) VALUES ($1, $2)", 9999, true)
		up(t, sys, db)
		wantServed(t, sys, dsn, db)
		err := migrations.Check(t.Context(), db, sys.dialect)
		if !errors.Is(err, migrations.ErrNewer) || errors.Is(err, migrations.ErrBehind) ||
			!strings.Contains(err.Error(), "newer than this program: it has migration 9999, and the program knows") {
			t.Errorf("Check: %v, want %v", err, migrations.ErrNewer)
		}

		// A program that takes a newer schema does not take one that the newer version has made unfit for it.
		must(t, db, "ALTER TABLE holdfast_turns DROP COLUMN payload")
		for what, err := range map[string]error{
			"Up":    migrations.Up(t.Context(), db, sys.dialect),
			"Check": migrations.Check(t.Context(), db, sys.dialect),
		} {
			if !errors.Is(err, migrations.ErrBehind) || errors.Is(err, migrations.ErrNewer) ||
				!strings.Contains(err.Error(), "missing column holdfast_turns.payload") ||
				!strings.Contains(err.Error(), "9999") {
				t.Errorf("%s: %v, want %v, with the number of the newer migration", what, err, migrations.ErrBehind)
			}
		}
	})
}

func TestNothingIsLeftRunning(t *testing.T) {
	defer leaktest.None(t, append(testenv.Leaks(), goleak.IgnoreCurrent())...)
	dsn := testenv.SQLite(t)
	if err := upAtOnce(t.Context(), onSQLite, dsn, 5); err != nil {
		t.Error(err)
	}
}

func TestUnknownDialect(t *testing.T) {
	for name, err := range map[string]error{
		"Up":    migrations.Up(t.Context(), nil, "mysql"),
		"Check": migrations.Check(t.Context(), nil, ""),
		"FS":    func() error { _, err := migrations.FS("../postgres"); return err }(),
	} {
		if err == nil {
			t.Errorf("%s takes it", name)
		}
	}
}
