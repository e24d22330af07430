package sqlitecheckpoint_test

import (
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/lock/locktest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return newStore(t, nil) })
}

// The store on one connection, with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqlitecheckpoint.Options{Prefix: "_My1"})
	})
}

func TestSweeper(t *testing.T) {
	checkpointtest.RunSweeper(t, func(t *testing.T, ttl time.Duration) checkpointtest.SweepingStore {
		return newStore(t, &sqlitecheckpoint.Options{TTL: ttl})
	})
}

func TestUnsettled(t *testing.T) {
	checkpointtest.RunUnsettled(t, func(t *testing.T, unsettled time.Duration) checkpointtest.SweepingStore {
		return newStore(t, &sqlitecheckpoint.Options{Unsettled: unsettled})
	})
}

func TestBeat(t *testing.T) {
	locktest.RunBeater(t, func(t *testing.T) lock.Beater { return newStore(t, nil) })
}

func TestRaise(t *testing.T) {
	checkpointtest.RunRaiser(t, func(t *testing.T) checkpointtest.RaisingStore { return newStore(t, nil) })
}

func TestModel(t *testing.T) {
	faulttest.CheckpointModel(t, func(t *testing.T) checkpoint.Store { return newStore(t, nil) })
	faulttest.CheckpointSweepModel(t, func(t *testing.T, ttl time.Duration) checkpoint.Store {
		return newStore(t, &sqlitecheckpoint.Options{TTL: ttl})
	})
}

func TestUnsettledModel(t *testing.T) {
	faulttest.CheckpointUnsettledModel(t, func(t *testing.T, unsettled time.Duration) checkpoint.Store {
		return newStore(t, &sqlitecheckpoint.Options{Unsettled: unsettled})
	})
}

func TestHistories(t *testing.T) {
	faulttest.CheckpointHistories(t, func(t *testing.T) checkpoint.Store { return newStore(t, nil) },
		faulttest.Histories())
}

func TestRenewUnderLoad(t *testing.T) {
	faulttest.RenewUnderLoad(t, func(t *testing.T) checkpoint.Store { return newStore(t, nil) }, 500)
}

// The lock lets every caller in, and the histories stay right: safety needs no lock.
func TestHistoriesBehindEverybody(t *testing.T) {
	faulttest.HistoriesBehindEverybody(t, func(t *testing.T) checkpoint.Store { return newStore(t, nil) })
}
