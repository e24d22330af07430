package sqlitestream_test

import (
	"database/sql"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitestream"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) stream.Store { return newStore(t, nil) })
}

// Two stores on one file are as two processes.
func TestTwoStores(t *testing.T) {
	t.Parallel()
	streamtest.RunPair(t, func(t *testing.T) (a, b stream.Store) {
		dsn := testenv.SQLite(t)
		return create(t, sqlitetest.Open(t, dsn), nil), sqlitestream.New(sqlitetest.Open(t, dsn), nil)
	})
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	streamtest.Run(t, func(t *testing.T) stream.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqlitestream.Options{Prefix: "_My1"})
	})
}

func newStore(tb testing.TB, o *sqlitestream.Options) *sqlitestream.Store {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqlitestream.Options) *sqlitestream.Store {
	tb.Helper()
	s := sqlitestream.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}
