// Package checkpointtest holds implementations of [checkpoint.Store] to its contract.
//
// The contract is a table of clauses. Each clause has one sentence, printed when the clause is broken, and a check that
// uses a fresh store:
//
//	func TestStore(t *testing.T) {
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package checkpointtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed if the clause is broken, so that it reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called. If
// the store is no [checkpoint.Inspector], the clauses about its Head pass.
func Run(t *testing.T, newStore func(t *testing.T) checkpoint.Store) { contract().Run(t, newStore) }

// Violations runs the named clauses, or all if none is named, and returns an error for each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() checkpoint.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

// SweepingStore is a store that retires idle sessions when asked.
type SweepingStore interface {
	checkpoint.Store
	checkpoint.Sweeper
}

// RunSweeper checks the clauses of [checkpoint.Sweeper]. newStore must return an empty store whose sessions are idle
// after ttl. If ttl is 0, sessions stay.
func RunSweeper(t *testing.T, newStore func(t *testing.T, ttl time.Duration) SweepingStore) {
	sweepContract().Run(t, forTest(newStore))
}

// An opener makes a store for which a time means what its clause says.
type opener = func(time.Duration) SweepingStore

func forTest(newStore func(*testing.T, time.Duration) SweepingStore) func(*testing.T) opener {
	return func(t *testing.T) opener {
		return func(d time.Duration) SweepingStore { return newStore(t, d) }
	}
}

func contract() suite.Clauses[checkpoint.Store] {
	return suite.Of(clauses(), func(c clause) suite.Clause[checkpoint.Store] {
		return clauseOn[checkpoint.Store]{c.name, c.rule, func(p *probe, _ checkpoint.Store) { c.check(p) }}.bound()
	})
}

func sweepContract() suite.Clauses[opener] {
	return suite.Of(sweepClauses, func(c sweepClause) suite.Clause[opener] {
		return suite.With(c.ttl, clauseOn[SweepingStore]{c.name, c.rule, c.check}.bound())
	})
}

// A clauseOn is a clause about stores that can do more than every store can.
type clauseOn[S checkpoint.Store] struct {
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
	return slices.Concat(
		claimClauses, fromClauses, leaseClauses, deleteClauses, appendClauses, keepClauses, markClauses,
		retryClauses, labelClauses, readClauses, headClauses, raceClauses, cancelClauses, valueClauses,
	)
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
