package inboxtest

import (
	"context"

	"github.com/holdfast-go/holdfast/inbox"
)

// Unreachable returns how a store breaks the clause about a server that cannot be reached.
func Unreachable(ctx context.Context, s inbox.Store) error { return unreachable.Violation(ctx, s) }
