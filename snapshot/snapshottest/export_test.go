package snapshottest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/snapshot"
)

// SweepViolations is Violations for the clauses of RunSweeper.
func SweepViolations(
	ctx context.Context, newStore func() func(remember time.Duration) SweepingStore, names ...string,
) map[string]error {
	return sweepContract().Violations(ctx, newStore, names...)
}

// DamageViolations is Violations for the clauses of RunDamaged.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	return damageContract().Violations(ctx, newStore, names...)
}

// OutgrownViolation returns the fault that the clause of RunOutgrown finds.
func OutgrownViolation(ctx context.Context, s DamagingStore) error {
	return outgrownClause.bound().Violation(ctx, s)
}

// UnreachableViolation returns the error that the clause of RunUnreachable finds.
func UnreachableViolation(ctx context.Context, s snapshot.Store) error {
	return unreachableClause.bound().Violation(ctx, s)
}

// DividedViolations is Violations for the clauses of RunDivided.
func DividedViolations(ctx context.Context, newStore func() DividedStore, names ...string) map[string]error {
	return dividedContract().Violations(ctx, newStore, names...)
}

// RaiseViolations is Violations for the clauses of RunRaiser.
func RaiseViolations(ctx context.Context, newStore func() RaisingStore, names ...string) map[string]error {
	return raiseContract().Violations(ctx, newStore, names...)
}
