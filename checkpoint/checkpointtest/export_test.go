package checkpointtest

import (
	"context"
	"slices"
	"time"
)

// DamageViolations is Violations for the clauses of RunDamaged.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	found := make(map[string]error)
	for _, c := range damageClauses {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.run(ctx, newStore()); err != nil {
			found[c.name] = err
		}
	}
	return found
}

// UnsettledViolations is Violations for the clauses of RunUnsettled.
func UnsettledViolations(
	ctx context.Context, newStore func(unsettled time.Duration) SweepingStore, names ...string,
) map[string]error {
	found := make(map[string]error)
	for _, c := range unsettledClauses {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.clause().run(ctx, newStore(c.unsettled)); err != nil {
			found[c.name] = err
		}
	}
	return found
}

// OutgrownViolation returns the error that the clause of RunOutgrown finds.
func OutgrownViolation(ctx context.Context, s DamagingStore) error { return outgrownClause.run(ctx, s) }

// WatchViolations is Violations for the clauses of RunWatcher.
func WatchViolations(ctx context.Context, newStore func() WatchingStore, names ...string) map[string]error {
	found := make(map[string]error)
	for _, c := range watchClauses {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.clause().run(ctx, newStore()); err != nil {
			found[c.name] = err
		}
	}
	return found
}
