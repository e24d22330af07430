package ledger_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteledger"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
)

func TestLedger(t *testing.T) { each(t, ledgertest.Run) }

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) ledger.Ledger) {
		faulttest.LedgerModel(t, open)
		faulttest.LedgerHistories(t, open, faulttest.Histories())
	})
}

func TestIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestStoreBehind(t *testing.T) { onPostgres.TestBehind(t) }

func TestStorePgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

// The suite passes on one connection to a file, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onFile(t, db, &sqliteledger.Options{Prefix: "_My1"})
	})
}

func TestRaise(t *testing.T) {
	t.Parallel()
	run := func(name string, open func(t *testing.T) ledgertest.Opener) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.RunRaiser(t, open)
		})
	}
	run("memory", func(*testing.T) ledgertest.Opener {
		m := new(ledger.Memory)
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			m.DoubtFor = doubtFor
			return m
		}
	})
	run("sqlite", func(t *testing.T) ledgertest.Opener {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		onFile(t, db, nil)
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			return sqliteledger.New(db, &sqliteledger.Options{DoubtFor: doubtFor})
		}
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		for name, configure := range pgtest.BehindSerializable {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ledgertest.RunRaiser(t, raisers(pgtest.EmptyPool(t, configure)))
			})
		}
		t.Run("PgBouncer", func(t *testing.T) {
			pgtest.PgBouncer(t, func(p *pgxpool.Pool) { ledgertest.RunRaiser(t, raisers(p)) })
		})
	})
}

func raisers(p *pgxpool.Pool) func(t *testing.T) ledgertest.Opener {
	n := 0
	return func(t *testing.T) ledgertest.Opener {
		n++
		prefix := fmt.Sprintf("r%d_", n)
		onPostgres.On(t, p, prefix)
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			return pgledger.New(p, &pgledger.Options{Prefix: prefix, DoubtFor: doubtFor})
		}
	}
}

// The largest documents and errors fit.
func TestLargest(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) ledger.Ledger) {
		l := open(t)
		e := effect("run", "a", 1)
		e.Args = json.RawMessage(`"` + strings.Repeat("x", ledger.MaxDocument-2) + `"`)
		issued := issue(t, l, e)
		finish(t, l, issued, ledger.Outcome{State: ledger.Unknown, Error: strings.Repeat("x", ledger.MaxError)})
		finish(t, l, issued, ledger.Outcome{State: ledger.Completed, Result: e.Args})
		if e := kept(t, l, "a"); len(e.Args) != ledger.MaxDocument || len(e.Result) != ledger.MaxDocument {
			t.Errorf("%d and %d bytes are kept", len(e.Args), len(e.Result))
		}
	})
}

// docs/operations.md has the statement for a server to which the rows were copied, and not the sequence.
func TestPostgresNumbersAfterCopy(t *testing.T) {
	t.Parallel()
	_, statement, _ := strings.Cut(testenv.Doc(t, "operations.md"), "\nSELECT setval(")
	statement, _, _ = strings.Cut(statement, ";\n")
	p := pgtest.EmptyPool(t)
	l := onPool(t, p)
	const old = 16 // a page
	for i := range old {
		issue(t, l, effect("run", fmt.Sprint("old", i), 1))
	}
	pgtest.Exec(t, p, "ALTER TABLE holdfast_effects ALTER number RESTART WITH 16")
	pgtest.Exec(t, p, "SELECT setval("+statement)
	issue(t, l, effect("run", "new", 1))
	if ids, _ := list(t, l, ledger.Query{Open: true}); len(ids) != old+1 {
		t.Errorf("%d effects, want %d", len(ids), old+1)
	}
}
