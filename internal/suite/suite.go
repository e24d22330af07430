// Package suite runs an executable contract: a table of clauses, each with one sentence and a check. It tells which
// clauses an implementation breaks, and shows that a broken implementation is found.
package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Patience bounds a clause. An implementation that blocks for longer breaks the clause.
const Patience = 3 * time.Minute

// A Clause is one sentence of a contract, and a check that a subject keeps it. The subject is an implementation, or
// what makes one.
type Clause[S any] struct {
	Name string
	// Rule is printed if the clause is broken, so that it reads as a broken promise.
	Rule string
	// Check returns how the subject breaks the clause, or nil. It may call Fail, Want and OK, in its own goroutine.
	Check func(ctx context.Context, subject S) error
}

// With returns c for a subject that makes what c is about from arg.
func With[A, S any](arg A, c Clause[S]) Clause[func(A) S] {
	return Clause[func(A) S]{c.Name, c.Rule, func(ctx context.Context, open func(A) S) error {
		return c.Check(ctx, open(arg))
	}}
}

// Test fails t if the subject breaks the clause.
func (c Clause[S]) Test(t testing.TB, subject S) {
	t.Helper()
	if err := c.Violation(t.Context(), subject); err != nil {
		t.Errorf("%v\nrule: %s", err, c.Rule)
	}
}

// Violation returns how the subject breaks the clause, or nil.
func (c Clause[S]) Violation(ctx context.Context, subject S) (err error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
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
	return c.Check(ctx, subject)
}

// Clauses are a contract, or a part of one, about one kind of subject.
type Clauses[S any] []Clause[S]

// Of makes a clause of each row of a table.
func Of[R, S any](table []R, clause func(R) Clause[S]) Clauses[S] {
	clauses := make(Clauses[S], len(table))
	for i, row := range table {
		clauses[i] = clause(row)
	}
	return clauses
}

// Run checks every clause in its own subtest, on a subject of its own.
func (cs Clauses[S]) Run(t *testing.T, open func(t *testing.T) S) {
	for _, c := range cs {
		t.Run(c.Name, func(t *testing.T) { c.Test(t, open(t)) })
	}
}

// Violations checks the named clauses, or all if none is named, and returns an error for each broken clause.
func (cs Clauses[S]) Violations(ctx context.Context, open func() S, names ...string) map[string]error {
	found := make(map[string]error)
	for _, c := range cs {
		if len(names) > 0 && !slices.Contains(names, c.Name) {
			continue
		}
		if err := c.Violation(ctx, open()); err != nil {
			found[c.Name] = err
		}
	}
	return found
}

// broken leaves a check from any depth, as a panic.
type broken struct{ err error }

// Fail breaks the clause.
func Fail(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

// Want breaks the clause unless err is target.
func Want(err, target error) {
	if !errors.Is(err, target) {
		Fail("got error %v, want %v", err, target)
	}
}

// OK breaks the clause if there is an error.
func OK(err error) {
	if err != nil {
		Fail("unexpected error: %w", err)
	}
}

// Together runs all fs at once and waits for them.
func Together(fs ...func()) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for _, i := range rand.Perm(len(fs)) { // the last to wait is woken first
		wg.Go(func() {
			<-start
			fs[i]()
		})
	}
	close(start)
	wg.Wait()
}
