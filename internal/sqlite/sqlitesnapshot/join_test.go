package sqlitesnapshot_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	for name, connections := range map[string]int{"pool": 0, "one connection": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshottest.RunJoiner(t, func(t *testing.T) (snapshottest.JoiningStore, checkpoint.Store) {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				db.SetMaxOpenConns(connections)
				return create(t, db, nil), turnsOn(t, db)
			})
		})
	}
}

func turnsOn(t *testing.T, db *sql.DB) *sqlitecheckpoint.Store {
	t.Helper()
	turns := sqlitecheckpoint.New(db, nil)
	sqlitetest.Exec(t, db, turns.Schema())
	return turns
}

// A transaction is on one file, so stores on two files do not join.
func TestJoinElsewhere(t *testing.T) {
	t.Parallel()
	runs := newStore(t, nil)
	if runs.Join(turnsOn(t, sqlitetest.Open(t, testenv.SQLite(t)))) != nil {
		t.Error("joins with a store in another file")
	}
	if runs.Join(new(checkpoint.Memory)) != nil {
		t.Error("joins with a store in memory")
	}
}
