package sqlitecheckpoint_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func want(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("got error %v, want %v", err, target)
	}
}

func newStore(tb testing.TB, o *sqlitecheckpoint.Options) *sqlitecheckpoint.Store {
	tb.Helper()
	return create(tb, sqlitetest.Open(tb, testenv.SQLite(tb)), o)
}

func create(tb testing.TB, db *sql.DB, o *sqlitecheckpoint.Options) *sqlitecheckpoint.Store {
	tb.Helper()
	s := sqlitecheckpoint.New(db, o)
	sqlitetest.Exec(tb, db, s.Schema())
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}
