// Package snapshottest holds implementations of [snapshot.Store] to its contract.
//
// The contract is a table of clauses. Each clause is a sentence, printed if it is broken, and a check that uses a fresh
// store:
//
//	func TestStore(t *testing.T) {
//		snapshottest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports only the standard library and the contracts of the stores. Its tests show that the clauses
// convict stores which break them.
package snapshottest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed on failure. It reads as a broken promise.
	rule  string
	check func(p *probe)
}

// patience bounds a clause: a store that blocks for ever breaks it.
const patience = 3 * time.Minute

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called.
func Run(t *testing.T, newStore func(t *testing.T) snapshot.Store) {
	for _, c := range clauses() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.Context(), newStore(t)); err != nil {
				t.Errorf("%v\nrule: %s", err, c.rule)
			}
		})
	}
}

// Violations runs the named clauses, or all if none is named. It returns the fault of each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() snapshot.Store, names ...string) map[string]error {
	found := make(map[string]error)
	for _, c := range clauses() {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.run(ctx, newStore()); err != nil {
			found[c.name] = err
		}
	}
	return found
}

func clauses() []clause {
	return slices.Concat(beginClauses, adoptClauses, saveClauses, deleteClauses, keptClauses, partClauses,
		partValueClauses, pauseClauses, readClauses, raceClauses, keptRaceClauses, valueClauses)
}

// run returns the fault that the check found, or nil.
func (c *clause) run(ctx context.Context, s snapshot.Store) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer func() {
		if r := recover(); r != nil {
			b, ok := r.(broken)
			if !ok {
				panic(r)
			}
			err = b.err
		}
	}()
	c.check(&probe{ctx: ctx, store: s})
	return nil
}

// broken is the value of a probe's panic. The panic leaves the check of a clause from any depth.
type broken struct{ err error }

func fail(format string, args ...any) {
	panic(broken{fmt.Errorf(format, args...)})
}

func want(err, target error) {
	if !errors.Is(err, target) {
		fail("got error %v, want %v", err, target)
	}
}

func ok(err error) {
	if err != nil {
		fail("unexpected error: %w", err)
	}
}
