package workflowtest

import (
	"context"

	"github.com/holdfast-go/holdfast/workflow"
)

// Unreachable returns how a store breaks the clause about a server that cannot be reached.
func Unreachable(ctx context.Context, s workflow.Store) error { return unreachable.Violation(ctx, s) }
