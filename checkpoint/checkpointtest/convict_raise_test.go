package checkpointtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
)

type raising = checkpointtest.RaisingStore

// Each of these stores leaves an owner of before, or ends more than owners.
func TestRaiseConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(m *checkpoint.Memory) raising
	}{
		"it raises nothing":            {"raise", func(m *checkpoint.Memory) raising { return raisesNothing{m} }},
		"it frees nothing":             {"raise-frees", func(m *checkpoint.Memory) raising { return &keepsHeld{Memory: m} }},
		"it brings a fence back":       {"raise-late-claim", func(m *checkpoint.Memory) raising { return &claimsLate{Memory: m} }},
		"a second Raise does nothing":  {"raise-again", func(m *checkpoint.Memory) raising { return &raisesOnce{Memory: m} }},
		"it raises what it knows":      {"raise-all", func(m *checkpoint.Memory) raising { return &raisesOne{Memory: m} }},
		"it goes on when ctx is over":  {"raise-cancelled", func(m *checkpoint.Memory) raising { return raisesAnyway{m} }},
		"owners of before lost go on":  {"raise-again", func(m *checkpoint.Memory) raising { return raisesSince{m} }},
		"what was settled is lost too": {"raise-frees", func(m *checkpoint.Memory) raising { return &deletesOwned{Memory: m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[raising]{Violations: checkpointtest.RaiseViolations}.Convict(t, c.clause,
				func() raising { return c.broken(new(checkpoint.Memory)) })
		})
	}
}

type raisesNothing struct{ *checkpoint.Memory }

func (raisesNothing) Raise(context.Context, time.Time) (int, error) { return 2, nil }

// keepsHeld refuses each claim after a Raise.
type keepsHeld struct {
	*checkpoint.Memory
	raised bool
}

func (s *keepsHeld) Raise(ctx context.Context, lost time.Time) (int, error) {
	s.raised = true
	return s.Memory.Raise(ctx, lost)
}

func (s *keepsHeld) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if s.raised {
		return checkpoint.Claimed{}, new(checkpoint.HeldError)
	}
	return s.Memory.Claim(ctx, k, r)
}

// claimsLate grants a nonce that it has seen the fence that it had.
type claimsLate struct {
	*checkpoint.Memory
	claimed checkpoint.Claimed
}

func (s *claimsLate) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	if s.claimed.Fence.Nonce == r.Nonce {
		return s.claimed, nil
	}
	c, err := s.Memory.Claim(ctx, k, r)
	s.claimed = c
	return c, err
}

type raisesOnce struct {
	*checkpoint.Memory
	raised bool
}

func (s *raisesOnce) Raise(ctx context.Context, lost time.Time) (int, error) {
	if s.raised {
		return 0, nil
	}
	n, err := s.Memory.Raise(ctx, lost)
	s.raised = n > 0
	return n, err
}

// raisesOne raises the sessions of one orchestrator only: those of another are in a store of their own.
type raisesOne struct {
	*checkpoint.Memory
	others checkpoint.Memory
}

func (s *raisesOne) of(orchestrator string) *checkpoint.Memory {
	if orchestrator != "bot" {
		return &s.others
	}
	return s.Memory
}

func (s *raisesOne) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	return s.of(k.Orchestrator).Claim(ctx, k, r)
}

func (s *raisesOne) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	return s.of(l.Orchestrator).Append(ctx, l, cp, o)
}

type raisesAnyway struct{ *checkpoint.Memory }

func (s raisesAnyway) Raise(ctx context.Context, lost time.Time) (int, error) {
	n, err := s.Memory.Raise(context.WithoutCancel(ctx), lost)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}

// raisesSince raises nothing if nothing can be lost yet, or since nobody knows when.
type raisesSince struct{ *checkpoint.Memory }

func (s raisesSince) Raise(ctx context.Context, lost time.Time) (int, error) {
	if lost.IsZero() {
		return 0, nil
	}
	return s.Memory.Raise(ctx, lost)
}

// deletesOwned deletes what has an owner.
type deletesOwned struct {
	*checkpoint.Memory
	owned []checkpoint.Lease
}

func (s *deletesOwned) Claim(
	ctx context.Context, k checkpoint.Key, r checkpoint.ClaimRequest,
) (checkpoint.Claimed, error) {
	c, err := s.Memory.Claim(ctx, k, r)
	s.owned = append(s.owned, c.Lease)
	return c, err
}

func (s *deletesOwned) Raise(ctx context.Context, lost time.Time) (n int, err error) {
	for _, l := range s.owned {
		if s.Delete(ctx, l) == nil {
			n++
		}
	}
	s.owned = nil
	return n, ctx.Err()
}

var _ lock.Raiser = (*deletesOwned)(nil)
