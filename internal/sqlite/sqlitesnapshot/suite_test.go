package sqlitesnapshot_test

import (
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitesnapshot"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, func(t *testing.T) snapshot.Store { return newStore(t, nil) })
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	snapshottest.Run(t, func(t *testing.T) snapshot.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqlitesnapshot.Options{Prefix: "_My1"})
	})
}

func TestSweeper(t *testing.T) {
	t.Parallel()
	snapshottest.RunSweeper(t, func(t *testing.T, remember time.Duration) snapshottest.SweepingStore {
		return newStore(t, &sqlitesnapshot.Options{Remember: remember})
	})
}

func TestRaise(t *testing.T) {
	t.Parallel()
	snapshottest.RunRaiser(t, func(t *testing.T) snapshottest.RaisingStore { return newStore(t, nil) })
}

func TestModel(t *testing.T) {
	faulttest.SnapshotModel(t, func(t *testing.T) snapshot.Store { return newStore(t, nil) })
}

func TestRacingBegins(t *testing.T) {
	faulttest.RacingBegins(t, func(t *testing.T) snapshot.Store { return newStore(t, nil) }, 10_000)
}

func BenchmarkStore(b *testing.B) { snapshottest.Bench(b, newStore(b, nil)) }
