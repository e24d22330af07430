package sqliteturnlog_test

import (
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteturnlog"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

func TestLog(t *testing.T) {
	t.Parallel()
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log { return newLog(t, nil) })
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqliteturnlog.Options{Prefix: "_My1"})
	})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	newLog := func(t *testing.T) turnlog.Lister { return newLog(t, nil) }
	faulttest.TurnLogModel(t, newLog)
	faulttest.TurnLogHistories(t, newLog, faulttest.Histories())
}
