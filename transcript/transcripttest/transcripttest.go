// Package transcripttest holds implementations of [transcript.Store] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		transcripttest.Run(t, func(t *testing.T) transcript.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports no driver. Its tests show that the clauses convict stores which break them.
package transcripttest

import (
	"context"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called.
func Run(t *testing.T, newStore func(t *testing.T) transcript.Store) { contract().Run(t, newStore) }

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() transcript.Store, names ...string) map[string]error {
	return contract().Violations(ctx, newStore, names...)
}

func contract() suite.Clauses[transcript.Store] {
	all := slices.Concat(
		appendClauses, apartClauses, readClauses, loopClauses, copyClauses, trimClauses, valueClauses, refusedClauses,
		raceClauses)
	return suite.Of(all, func(c clause) suite.Clause[transcript.Store] {
		return suite.Clause[transcript.Store]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, s transcript.Store) error {
				c.check(&probe{ctx: ctx, store: s})
				return nil
			},
		}
	})
}

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
