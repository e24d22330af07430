package sqlitesnapshot_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// A spoiled store damages runs by hand, past the checks of the tables.
type spoiled struct {
	*sqlitesnapshot.Store
	db  *sql.DB
	set string
}

func (s spoiled) Damage(ctx context.Context, k snapshot.Key) error {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, text := range []string{
		"PRAGMA ignore_check_constraints = on",
		"UPDATE holdfast_runs SET " + s.set + " WHERE orchestrator = '" + k.Orchestrator + "' AND session = '" + k.Session + "'",
		"PRAGMA ignore_check_constraints = off",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, set := range []string{
		"payload = '{'", "status = 'done'", "status = ''", "id = ''", "turn = -1", "attempt = -1", "seq = -1",
		"nonce = ''",
		"epoch = -1", "base = CAST(x'ff' AS TEXT)", "error = CAST(zeroblob(70000) AS TEXT)",
	} {
		t.Run(set, func(t *testing.T) {
			snapshottest.RunDamaged(t, func(t *testing.T) snapshottest.DamagingStore {
				db := sqlitetest.Open(t, testenv.SQLite(t))
				return spoiled{create(t, db, nil), db, set}
			})
		})
	}
}

func TestOutgrown(t *testing.T) {
	t.Parallel()
	snapshottest.RunOutgrown(t, func(t *testing.T) snapshottest.DamagingStore {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		return spoiled{create(t, db, nil), db, "payload = '[' || replace(hex(zeroblob(400000)), '00', '{},') || '{}]'"}
	})
}
