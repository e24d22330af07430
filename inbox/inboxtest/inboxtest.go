// Package inboxtest holds implementations of [inbox.Store] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		inboxtest.Run(t, func(t *testing.T) inbox.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package inboxtest

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/suite"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called.
func Run(t *testing.T, newStore func(t *testing.T) inbox.Store) { contract().Run(t, newStore) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() inbox.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

func contract() suite.Clauses[inbox.Store] {
	all := slices.Concat(postClauses, itemsClauses, removeClauses, valueClauses, raceClauses)
	return suite.Of(all, func(c clause) suite.Clause[inbox.Store] {
		return suite.Clause[inbox.Store]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s inbox.Store) error {
				c.check(&probe{ctx, s})
				return nil
			},
		}
	})
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
