package workflowtest

import (
	"context"

	"github.com/holdfast-go/holdfast/workflow"
)

// Unreachable returns how a store breaks the clause about a server that cannot be reached.
func Unreachable(ctx context.Context, s workflow.Store) error { return unreachable.Violation(ctx, s) }

// Clauses returns the names of all clauses that Run checks.
func Clauses() (names []string) {
	for _, c := range contract() {
		names = append(names, c.Name)
	}
	return names
}
