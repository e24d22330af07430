// Package ledgertest holds implementations of [ledger.Ledger] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// ledger:
//
//	func TestLedger(t *testing.T) {
//		ledgertest.Run(t, func(t *testing.T) ledger.Ledger { return myledger.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict ledgers which break them.
package ledgertest

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newLedger must return an empty ledger each time it is called.
func Run(t *testing.T, newLedger func(t *testing.T) ledger.Ledger) { contract().Run(t, newLedger) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong ledger is convicted.
func Violations(ctx context.Context, newLedger func() ledger.Ledger, names ...string) map[string]error {
	return contract().Violations(ctx, newLedger, names...)
}

func contract() suite.Clauses[ledger.Ledger] {
	return suite.Of(clauses(), func(c clause) suite.Clause[ledger.Ledger] {
		check := func(ctx context.Context, l ledger.Ledger) error {
			c.check(&probe{ctx: ctx, ledger: l})
			return nil
		}
		return suite.Clause[ledger.Ledger]{Name: c.name, Rule: c.rule, Check: check}
	})
}

func clauses() []clause {
	return slices.Concat(adoptClauses, issueClauses, finishClauses, unsureClauses, answerClauses, recordClauses,
		readClauses, ageClauses, pruneClauses, valueClauses, cancelClauses, raceClauses)
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
