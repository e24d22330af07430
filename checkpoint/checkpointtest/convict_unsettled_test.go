package checkpointtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

// These stores retire too much, too little, or forget what they issued.
func TestSuiteConvictsUnsettled(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(unsettled time.Duration) sweeping
	}{
		"what settled nothing stays": {"unsettled-retired", func(time.Duration) sweeping { return new(checkpoint.Memory) }},
		"what has settled goes too": {"unsettled-retired", func(d time.Duration) sweeping {
			return &checkpoint.Memory{TTL: time.Nanosecond, Unsettled: d}
		}},
		"what is owned goes too":    {"unsettled-owned", func(d time.Duration) sweeping { return brief{unsettled(d)} }},
		"a former owner comes back": {"unsettled-fenced", func(d time.Duration) sweeping { return comesBack{unsettled(d)} }},
		"it goes at once":           {"unsettled-young", func(time.Duration) sweeping { return unsettled(time.Nanosecond) }},
		"a negative time retires all": {"unsettled-negative", func(time.Duration) sweeping {
			return &checkpoint.Memory{TTL: time.Nanosecond}
		}},
		"Born stays what it became": {"unsettled-born", func(d time.Duration) sweeping { return altered{mutant: unsettled(d), claim: ignoresBorn} }},
		"a retired owner is taken from": {"unsettled-fenced", func(d time.Duration) sweeping {
			return altered{mutant: unsettled(d), claim: ignoresFrom}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[opener]{
				Violations: checkpointtest.UnsettledViolations,
				// One of the stores retires nothing, however long it is asked to.
				Blocking: []string{"unsettled-retired"},
			}.Convict(t, c.clause, func() opener { return c.broken })
		})
	}
	right := func() opener {
		return func(d time.Duration) sweeping { return unsettled(d) }
	}
	for name, err := range checkpointtest.UnsettledViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

func unsettled(d time.Duration) mutant {
	m := newMutant()
	m.Unsettled = d
	return m
}

// brief grants leases that are over at once.
type brief struct{ mutant }

func (b brief) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	r.TTL = time.Millisecond
	return b.mutant.Claim(ctx, k, r)
}

func (b brief) Renew(
	ctx context.Context, _ time.Duration, leases []checkpoint.Lease,
) (lost []checkpoint.Lease, err error) {
	return b.mutant.Renew(ctx, time.Millisecond, leases)
}

// Sweep waits until the sessions that were claimed just now are idle.
func (b brief) Sweep(ctx context.Context, limit int) (retired int, err error) {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		n, err := b.mutant.Sweep(ctx, limit)
		if retired += n; err != nil {
			return retired, err
		}
	}
	return retired, nil
}

// comesBack accepts the lease of a retired session while no other process has claimed it.
type comesBack struct{ mutant }

func (c comesBack) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	err := c.mutant.Append(ctx, l, cp, o)
	if !errors.Is(err, lock.ErrFenced) || c.fence(l.Key) != l.Fence {
		return err
	}
	got, err := c.mutant.Claim(ctx, l.Key, checkpoint.ClaimRequest{Nonce: l.Fence.Nonce, TTL: time.Hour})
	if err != nil {
		return err
	}
	return c.mutant.Append(ctx, got.Lease, cp, o)
}
