package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestore"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/store"
)

const insertSQL = `INSERT INTO {prefix}notes (text) VALUES (?1)`

var (
	errVerdict = store.Verdict("verdict")
	errStopped = errors.New("stopped")
	errOther   = errors.New("other")
)

func notes(t *testing.T) (*sqlitestore.DB, *sql.DB) {
	t.Helper()
	db := sqlitetest.Open(t, testenv.SQLite(t))
	d := sqlitestore.New(db, "my_", sqlitestore.Layout{
		Schema:     "CREATE TABLE {prefix}notes (text TEXT) STRICT",
		Tables:     []sqlitestore.Table{{Name: "{prefix}notes", Columns: "text"}},
		Statements: []string{insertSQL},
	})
	sqlitetest.Exec(t, db, d.Schema())
	return d, db
}

func stopped(t *testing.T) context.Context {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStopped)
	return ctx
}

// Start returns the first reason, and checks the reasons in the order of the contracts.
func TestStart(t *testing.T) {
	d, _ := notes(t)
	if _, err := d.Start(stopped(t), nil, errVerdict, errOther); !errors.Is(err, errVerdict) {
		t.Error(err)
	}
	if _, err := d.Start(stopped(t), nil, nil); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	st, err := d.Start(t.Context())
	if err != nil || st[insertSQL] == nil {
		t.Fatal(st, err)
	}
	if again, err := d.Start(t.Context()); err != nil || again[insertSQL] != st[insertSQL] {
		t.Error("the statement is prepared twice", err)
	}
}

// If a transaction fails or panics, it leaves no trace, and the queue stays open.
func TestWrite(t *testing.T) {
	d, db := notes(t)
	write := func(end func() error) error {
		return d.Write(t.Context(), func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), d.SQL(insertSQL), "note")
			return errors.Join(err, end())
		})
	}
	if err := write(func() error { return errOther }); !errors.Is(err, errOther) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = write(func() error { panic(errOther) })
	}()
	if err := write(func() error { return nil }); err != nil {
		t.Error(err)
	}
	rows, err := db.QueryContext(t.Context(), "SELECT text FROM my_notes")
	if all, err := sqlitestore.Collect(rows, err, sqlitestore.ScanText); err != nil || len(all) != 1 {
		t.Errorf("%q, %v", all, err)
	}
	if n := db.Stats().InUse; n != 0 {
		t.Errorf("%d connections are in use", n)
	}
}

func TestEnter(t *testing.T) {
	d, _ := notes(t)
	leave, err := d.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Enter(stopped(t)); !errors.Is(err, errStopped) {
		t.Error(err)
	}
	entered := make(chan error)
	go func() {
		leave, err := d.Enter(t.Context())
		if err == nil {
			leave()
		}
		entered <- err
	}()
	select {
	case err := <-entered:
		t.Fatal("two writers", err)
	default:
	}
	leave()
	if err := <-entered; err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	d, db := notes(t)
	for _, err := range []error{errVerdict, sqlitestore.ErrDSN} {
		if got := d.Explain(stopped(t), err); !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if got := d.Explain(stopped(t), errOther); !errors.Is(got, errStopped) {
		t.Error(got)
	}
	if got := d.Explain(t.Context(), errOther); !errors.Is(got, errOther) {
		t.Error(got)
	}
	for _, c := range []struct{ spoil, says string }{
		{"ALTER TABLE my_notes RENAME text TO body", "column text of table my_notes is missing: call Up of the database"},
		{"DROP TABLE my_notes", "table my_notes is missing: call Up of the database"},
	} {
		if _, err := db.ExecContext(t.Context(), c.spoil); err != nil {
			t.Fatal(err)
		}
		if got := d.Explain(t.Context(), errOther); !errors.Is(got, store.ErrSchema) ||
			!strings.Contains(got.Error(), c.says) {
			t.Errorf("%v, want %v that says %q", got, store.ErrSchema, c.says)
		}
	}
}
