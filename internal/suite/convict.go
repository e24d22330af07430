package suite

import (
	"context"
	"slices"
	"testing"
	"time"
)

// Violations is Clauses.Violations of some contract.
type Violations[S any] func(ctx context.Context, open func() S, names ...string) map[string]error

// A Trial shows that a contract convicts broken subjects.
type Trial[S any] struct {
	Violations Violations[S]
	// Blocking names the clauses that a broken subject blocks until ctx ends.
	Blocking []string
	// Tries is how often a clause looks at a subject before the subject counts as accepted: a race does not show a
	// fault each time. 0 means once.
	Tries int
}

// Convict fails t if the clause accepts the broken subject, or if there is no such clause.
func (r Trial[S]) Convict(t testing.TB, clause string, broken func() S) {
	t.Helper()
	patience := 20 * time.Second
	if slices.Contains(r.Blocking, clause) {
		patience = time.Second
	}
	for range max(r.Tries, 1) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		found := r.Violations(ctx, broken, clause)
		cancel()
		if found[clause] != nil {
			return
		}
	}
	t.Errorf("clause %s accepts it", clause)
}
