// Package checkpointtest holds implementations of [checkpoint.Store] to its contract.
//
// The contract is a table of clauses. Each clause has one sentence, printed when the clause is broken, and a check that
// uses a fresh store:
//
//	func TestStore(t *testing.T) {
//		checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return mystore.New(open(t), nil) })
//	}
//
// The package imports nothing but the standard library and packages checkpoint and lock. Its tests show that the
// clauses convict stores which break them.
package checkpointtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// A clause is one sentence of the contract and a check that it holds.
type clause struct {
	name string
	// rule is printed if the clause is broken, so that it reads as a broken promise.
	rule  string
	check func(p *probe)
}

// patience bounds a clause: a store that blocks for ever breaks it.
const patience = 3 * time.Minute

// Run checks every clause in its own subtest. newStore must return an empty store each time it is called.
func Run(t *testing.T, newStore func(t *testing.T) checkpoint.Store) {
	for _, c := range clauses() {
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t.Context(), newStore(t)); err != nil {
				t.Errorf("%v\nrule: %s", err, c.rule)
			}
		})
	}
}

// Violations runs the named clauses, or all if none is named, and returns an error for each broken clause. It is for
// tests which show that a wrong store is convicted.
func Violations(ctx context.Context, newStore func() checkpoint.Store, names ...string) map[string]error {
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

// SweepingStore is a store that retires idle sessions when asked.
type SweepingStore interface {
	checkpoint.Store
	checkpoint.Sweeper
}

// RunSweeper checks the clauses of [checkpoint.Sweeper]. newStore must return an empty store whose sessions are idle
// after ttl. If ttl is 0, sessions stay.
func RunSweeper(t *testing.T, newStore func(t *testing.T, ttl time.Duration) SweepingStore) {
	for _, c := range sweepClauses {
		t.Run(c.name, func(t *testing.T) {
			err := (&clause{check: func(p *probe) { c.check(p, p.store.(SweepingStore)) }}).
				run(t.Context(), newStore(t, c.ttl))
			if err != nil {
				t.Errorf("%v\nrule: %s", err, c.rule)
			}
		})
	}
}

func clauses() []clause {
	return slices.Concat(claimClauses, fromClauses, leaseClauses, deleteClauses, appendClauses, keepClauses, markClauses,
		retryClauses, readClauses, raceClauses, cancelClauses, valueClauses)
}

// run returns what the check found, or nil.
func (c *clause) run(ctx context.Context, s checkpoint.Store) (err error) {
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

// A probe panics with broken, to leave the check of a clause from any depth.
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
