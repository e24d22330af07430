package sqliteinbox_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteinbox"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.MainWith(m, boxtest.Roles(openDSN)) }

func openDSN(dsn string) (inbox.Store, func(), error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, nil, err
	}
	return sqliteinbox.New(db, nil), func() { db.Close() }, nil
}

// Several processes answer the same questions at once.
func TestProcesses(t *testing.T) {
	dsn := testenv.SQLite(t)
	boxtest.TestProcesses(t, create(t, sqlitetest.Open(t, dsn), nil), dsn)
}

// A process is killed while it posts.
func TestKilled(t *testing.T) {
	dsn := testenv.SQLite(t)
	boxtest.TestKilled(t, create(t, sqlitetest.Open(t, dsn), nil), dsn)
}
