// Package turnlogtest holds implementations of [turnlog.Log] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// log:
//
//	func TestLog(t *testing.T) {
//		turnlogtest.Run(t, func(t *testing.T) turnlog.Log { return mylog.New(open(t), nil) })
//	}
//
// An adapter of two methods can pass. It may leave out Turn and Orchestrator, and need not be a [turnlog.Lister].
//
// The package imports no driver. Its tests show that the clauses convict logs which break them.
package turnlogtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// Run checks every clause in its own subtest. newLog must return an empty log each time it is called. The clauses about
// lists are skipped if the log is no [turnlog.Lister].
//
// The log is checked as it is. If it leaves the checks to [turnlog.New], give Run what New returns, with the registry
// of [Registry].
func Run(t *testing.T, newLog func(t *testing.T) turnlog.Log) {
	contract(logClauses()).Run(t, newLog)
	t.Run("lister", func(t *testing.T) {
		if reason := noLister(t.Context(), newLog(t)); reason != "" {
			t.Skip(reason)
		}
		contract(listerClauses()).Run(t, newLog)
	})
}

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong log is convicted.
func Violations(ctx context.Context, newLog func() turnlog.Log, names ...string) map[string]error {
	found := contract(logClauses()).Violations(ctx, newLog, names...)
	if noLister(ctx, newLog()) == "" {
		maps.Copy(found, contract(listerClauses()).Violations(ctx, newLog, names...))
	}
	return found
}

// Registry returns a registry of all phases that the clauses record.
func Registry() *turnlog.Registry {
	r := turnlog.NewRegistry()
	for _, name := range phases {
		ok(r.Register(name, "a phase of the suite"))
	}
	return r
}

// noLister returns why a log cannot list its turns, or "".
func noLister(ctx context.Context, l turnlog.Log) string {
	lister, is := l.(turnlog.Lister)
	if !is {
		return "the log is no turnlog.Lister"
	}
	for _, err := range lister.Turns(ctx, turnlog.Query{Limit: 1}) {
		if errors.Is(err, errors.ErrUnsupported) {
			return "the adapter of the log is no turnlog.Lister"
		}
	}
	return ""
}

func contract(clauses []clause) suite.Clauses[turnlog.Log] {
	return suite.Of(clauses, func(c clause) suite.Clause[turnlog.Log] {
		check := func(ctx context.Context, l turnlog.Log) error {
			p := &probe{ctx: ctx, log: l}
			p.lister, _ = l.(turnlog.Lister)
			c.check(p)
			return nil
		}
		return suite.Clause[turnlog.Log]{Name: c.name, Rule: c.rule, Check: check}
	})
}

func logClauses() []clause {
	return slices.Concat(recordClauses, restoreClauses, valueClauses, cancelClauses, raceClauses)
}

func listerClauses() []clause { return slices.Concat(turnsClauses, pruneClauses, listerValueClauses) }

func fail(format string, args ...any) { suite.Fail(format, args...) }

func want(err, target error) { suite.Want(err, target) }

func ok(err error) { suite.OK(err) }
