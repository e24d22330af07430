// Package snapshottest holds implementations of [snapshot.Store] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		snapshottest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package snapshottest

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called.
func Run(t *testing.T, newStore func(t *testing.T) snapshot.Store) { contract().Run(t, newStore) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() snapshot.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

func contract() suite.Clauses[snapshot.Store] {
	return suite.Of(clauses(), func(c clause) suite.Clause[snapshot.Store] {
		return clauseOn[snapshot.Store]{c.name, c.rule, func(p *probe, _ snapshot.Store) { c.check(p) }}.bound()
	})
}

// A clauseOn is a clause about stores that can do more than every store can.
type clauseOn[S snapshot.Store] struct {
	name, rule string
	check      func(p *probe, s S)
}

// bound returns c with a probe of the store that the runner brings.
func (c clauseOn[S]) bound() suite.Clause[S] {
	return suite.Clause[S]{Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s S) error {
		c.check(&probe{ctx: ctx, store: s}, s)
		return nil
	}}
}

func clauses() []clause {
	return slices.Concat(beginClauses, adoptClauses, saveClauses, deleteClauses, keptClauses, partClauses,
		partValueClauses, pauseClauses, ageClauses, readClauses, raceClauses, keptRaceClauses, valueClauses)
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
