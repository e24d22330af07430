package sqliteledger_test

import (
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger { return newLedger(t, nil) })
}

func TestRaise(t *testing.T) {
	t.Parallel()
	ledgertest.RunRaiser(t, func(t *testing.T) ledgertest.Opener {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		create(t, db, nil)
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			return sqliteledger.New(db, &sqliteledger.Options{DoubtFor: doubtFor})
		}
	})
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return create(t, db, &sqliteledger.Options{Prefix: "_My1"})
	})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T) ledger.Ledger { return newLedger(t, nil) }
	faulttest.LedgerModel(t, open)
	faulttest.LedgerHistories(t, open, faulttest.Histories())
}
