package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	onPostgres.TestUnreachable(t, func(t *testing.T, l ledger.Ledger) { ledgertest.RunUnreachable(t, l) })
}

func TestEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

func TestSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

var errStopped = errors.New("stopped")

// Prune waits for other writers only if there is something to forget. A write that is refused says so.
func TestSQLiteWritersWait(t *testing.T) {
	t.Parallel()
	dsn := testenv.SQLite(t)
	db := sqlitetest.Open(t, dsn)
	l := onFile(t, db, nil)
	e := issue(t, l, effect("run", "a", 1))
	finish(t, l, issue(t, l, effect("run", "old", 1)), paid)
	other, err := sqlitetest.Open(t, dsn).Conn(t.Context())
	want(t, err, nil)
	defer other.Close()
	_, err = other.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	want(t, err, nil)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errStopped)
	defer cancel()
	if n, err := l.Prune(ctx, time.Now().Add(-time.Hour)); n != 0 || err != nil {
		t.Errorf("forgets %d, %v", n, err)
	}
	if n, err := l.Prune(ctx, time.Now().Add(time.Hour)); n != 0 || !errors.Is(err, errStopped) {
		t.Errorf("forgets %d, %v", n, err)
	}
	_, err = other.ExecContext(t.Context(), "ROLLBACK")
	want(t, err, nil)

	db.SetMaxOpenConns(1)
	sqlitetest.Exec(t, db, "PRAGMA query_only = on")
	_, err = l.Finish(t.Context(), e.ID, e.Attempts, paid)
	want(t, err, ledger.ErrRefused)
	_, err = l.Prune(t.Context(), time.Now().Add(time.Hour))
	want(t, err, ledger.ErrRefused)
	sqlitetest.Exec(t, db, "PRAGMA query_only = off")
	finish(t, l, e, paid)
}
