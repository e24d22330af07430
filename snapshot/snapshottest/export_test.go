package snapshottest

import (
	"context"
	"slices"
	"time"
)

// SweepViolations is Violations for the clauses of RunSweeper.
func SweepViolations(
	ctx context.Context, newStore func(remember time.Duration) SweepingStore, names ...string,
) map[string]error {
	found := make(map[string]error)
	for _, c := range sweepClauses {
		if len(names) > 0 && !slices.Contains(names, c.name) {
			continue
		}
		if err := c.run(ctx, newStore(c.remember)); err != nil {
			found[c.name] = err
		}
	}
	return found
}

// OutgrownViolation returns the fault that the clause of RunOutgrown finds.
func OutgrownViolation(ctx context.Context, s DamagingStore) error { return outgrownClause.run(ctx, s) }

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
