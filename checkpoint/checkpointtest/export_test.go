package checkpointtest

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// SweepViolations is Violations for the clauses of RunSweeper.
func SweepViolations(
	ctx context.Context, newStore func() func(ttl time.Duration) SweepingStore, names ...string,
) map[string]error {
	return sweepContract().Violations(ctx, newStore, names...)
}

// UnsettledViolations is Violations for the clauses of RunUnsettled.
func UnsettledViolations(
	ctx context.Context, newStore func() func(unsettled time.Duration) SweepingStore, names ...string,
) map[string]error {
	return unsettledContract().Violations(ctx, newStore, names...)
}

// DamageViolations is Violations for the clauses of RunDamaged.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	return damageContract().Violations(ctx, newStore, names...)
}

// OutgrownViolation returns the error that the clause of RunOutgrown finds.
func OutgrownViolation(ctx context.Context, s DamagingStore) error {
	return outgrownClause.bound().Violation(ctx, s)
}

// UnreachableViolation returns the error that the clause of RunUnreachable finds.
func UnreachableViolation(ctx context.Context, s checkpoint.Store) error {
	return unreachableClause.bound().Violation(ctx, s)
}

// DividedViolations is Violations for the clauses of RunDivided.
func DividedViolations(ctx context.Context, newStore func() DividedStore, names ...string) map[string]error {
	return dividedContract().Violations(ctx, newStore, names...)
}

// DividedSweepViolation returns the error that the clause of RunDividedSweeper finds.
func DividedSweepViolation(ctx context.Context, s DividedSweepingStore) error {
	return dividedSweep.bound().Violation(ctx, s)
}

// RaiseViolations is Violations for the clauses of RunRaiser.
func RaiseViolations(ctx context.Context, newStore func() RaisingStore, names ...string) map[string]error {
	return raiseContract().Violations(ctx, newStore, names...)
}
