package transcripttest

import (
	"context"

	"github.com/holdfast-go/holdfast/transcript"
)

// Unreachable returns how a store breaks the clause about a server that cannot be reached.
func Unreachable(ctx context.Context, s transcript.Store) error { return unreachable.Violation(ctx, s) }

// Names returns the names of the clauses.
func Names() (names []string) {
	for _, c := range contract() {
		names = append(names, c.Name)
	}
	return names
}
