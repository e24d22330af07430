// Package workflowtest holds implementations of [workflow.Store] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		workflowtest.Run(t, func(t *testing.T) workflow.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package workflowtest

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
)

// A clause is one sentence of the contract and a check that it holds.
type clause = clauseOn[workflow.Store]

// A clauseOn is a clause about stores that can do more than every store can.
type clauseOn[S workflow.Store] struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe, s S)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called, with a
// retention and a cap that are the defaults.
func Run(t *testing.T, newStore func(t *testing.T) workflow.Store) { contract().Run(t, newStore) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() workflow.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

func contract() suite.Clauses[workflow.Store] {
	return bound(slices.Concat(startClauses, claimClauses, lostClauses, crashClauses, writeClauses, nextClauses,
		rowClauses, signalClauses, controlClauses, familyClauses, forkClauses, readClauses, valueClauses,
		refusedClauses, goldenClauses, raceClauses, noteClauses, topicClauses, limitClauses, debounceClauses))
}

// bound returns the clauses with a probe of the store that the runner brings.
func bound[S workflow.Store](all []clauseOn[S]) suite.Clauses[S] {
	return suite.Of(all, func(c clauseOn[S]) suite.Clause[S] {
		return suite.Clause[S]{Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s S) error {
			c.check(&probe{ctx, s}, s)
			return nil
		}}
	})
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
