package pgledger_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgledger"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

// TestMain skips the Example without a server, as testenv skips tests.
func TestMain(m *testing.M) {
	if os.Getenv("HOLDFAST_TEST_POSTGRES_URL") == "" {
		if err := flag.Set("test.skip", "^ExampleTx$"); err != nil {
			log.Fatal(err)
		}
	}
	testenv.Main(m)
}

func TestLedger(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledger.Ledger { return open(t) })
}

func TestRaise(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raises(t, pgtest.EmptyPool(t, configure))
		})
	}
	t.Run("PgBouncer", func(t *testing.T) {
		pgtest.PgBouncer(t, func(p *pgxpool.Pool) { raises(t, p) })
	})
}

func raises(t *testing.T, p *pgxpool.Pool) {
	n := 0
	ledgertest.RunRaiser(t, func(t *testing.T) ledgertest.Opener {
		n++
		prefix := fmt.Sprintf("r%d_", n)
		create(t, p, &pgledger.Options{Prefix: prefix})
		return func(doubtFor time.Duration) ledgertest.RaisingLedger {
			return pgledger.New(p, &pgledger.Options{Prefix: prefix, DoubtFor: doubtFor})
		}
	})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	t.Parallel()
	newLedger := func(t *testing.T) ledger.Ledger { return open(t) }
	faulttest.LedgerModel(t, newLedger)
	faulttest.LedgerHistories(t, newLedger, faulttest.Histories())
}

// A role or a database may ask by default for transactions that see no change which others make meanwhile. The ledger
// keeps its promises there too.
func TestIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, numbered(pgtest.EmptyPool(t, pgtest.Isolation(level))))
		})
	}
}

// These are pools as people configure them for a pooler in front of a server.
func TestStoreBehind(t *testing.T) {
	t.Parallel()
	for name, configure := range pgtest.BehindSerializable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, numbered(pgtest.EmptyPool(t, configure)))
		})
	}
}

// Behind PgBouncer in transaction mode, each transaction is on another connection than the transaction before.
func TestStorePgBouncer(t *testing.T) {
	t.Parallel()
	pgtest.PgBouncer(t, func(p *pgxpool.Pool) { ledgertest.Run(t, numbered(p)) })
}

// numbered returns a maker of ledgers on one pool, each with its own tables.
func numbered(p *pgxpool.Pool) func(*testing.T) ledger.Ledger {
	n := 0
	return func(t *testing.T) ledger.Ledger {
		n++
		return create(t, p, &pgledger.Options{Prefix: fmt.Sprintf("l%d_", n)})
	}
}

func open(tb testing.TB, configure ...func(*pgxpool.Config)) *pgledger.Ledger {
	tb.Helper()
	return pgledger.New(pgtest.PoolWith(tb, pgledger.New(nil, nil).Schema(), configure...), nil)
}

func create(tb testing.TB, p *pgxpool.Pool, o *pgledger.Options) *pgledger.Ledger {
	tb.Helper()
	return pgtest.Create(tb, p, pgledger.New(p, o))
}

// private returns a ledger on a server that only this test uses.
func private(t *testing.T, o *testenv.Options) (*testenv.Server, *pgxpool.Pool, *pgledger.Ledger) {
	t.Helper()
	server := testenv.StartPostgres(t, o)
	p := pgtest.PoolOn(t, server.URL)
	return server, p, create(t, p, nil)
}

// effect returns an effect of a run under the fence of an epoch.
func effect(run, id string, epoch int64) ledger.Effect {
	return ledger.Effect{
		ID: id, Orchestrator: "bot", Session: "session of " + run, RunID: run, Intent: "pay", Name: "charge",
		Fence: fence(epoch), Args: json.RawMessage(`{"cents":100}`), ArgsSum: "k:1",
	}
}

// keyed returns an effect that belongs to the world.
func keyed(run, id string, epoch int64) ledger.Effect {
	e := effect(run, id, epoch)
	e.Key = "order of " + id
	return e
}

func fence(epoch int64) lock.Fence { return lock.Fence{Epoch: epoch, Nonce: fmt.Sprint("n", epoch)} }

// paid is the outcome of an attempt.
var paid = ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"receipt"`)}

func issue(t *testing.T, l *pgledger.Ledger, e ledger.Effect) ledger.Effect {
	t.Helper()
	now, issued, err := l.Issue(t.Context(), e, false)
	if err != nil || !issued {
		t.Fatalf("issue %s: issued %v, %v", e.ID, issued, err)
	}
	return now
}

func finish(t *testing.T, l *pgledger.Ledger, e ledger.Effect, o ledger.Outcome) ledger.Effect {
	t.Helper()
	now, err := l.Finish(t.Context(), e.ID, e.Attempts, o)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// kept returns the effect with an id.
func kept(t *testing.T, l *pgledger.Ledger, id string) (found ledger.Effect) {
	t.Helper()
	for e, err := range l.Effects(t.Context(), ledger.Query{ID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		found = e
	}
	return found
}

// docs/operations.md has the statement for a server to which the rows were copied, and not the sequence.
func TestNumbersAfterCopy(t *testing.T) {
	t.Parallel()
	docs := testenv.Doc(t, "operations.md")
	_, statement, _ := strings.Cut(docs, "\nSELECT setval(")
	statement, _, _ = strings.Cut(statement, ";\n")
	p := pgtest.EmptyPool(t)
	l := create(t, p, nil)
	const old = 16 // a page
	for i := range old {
		issue(t, l, effect("run", fmt.Sprint("old", i), 1))
	}
	pgtest.Exec(t, p, l.Fill("ALTER TABLE {effects} ALTER number RESTART WITH 16"))
	pgtest.Exec(t, p, "SELECT setval("+statement)
	issue(t, l, effect("run", "new", 1))
	n := 0
	for _, err := range l.Effects(t.Context(), ledger.Query{Open: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != old+1 {
		t.Errorf("%d effects, want %d", n, old+1)
	}
}
