package checkpointtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/suite"
)

type (
	sweeping = checkpointtest.SweepingStore
	opener   = func(time.Duration) sweeping
)

// These stores retire sessions that are in use, or keep sessions that are not.
func TestSweeperConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(m mutant) sweeping
	}{
		"it never retires":           {"idle", func(m mutant) sweeping { m.TTL = 0; return m }},
		"what is owned goes too":     {"owned", func(m mutant) sweeping { return brief{m} }},
		"what is owed goes too":      {"owing", func(m mutant) sweeping { return forgetsDebts{m} }},
		"it counts from the claim":   {"active", func(m mutant) sweeping { return &sweepsMarked{mutant: m} }},
		"the limit is ignored":       {"limit", func(m mutant) sweeping { return unlimited{m} }},
		"one is counted twice":       {"limit", func(m mutant) sweeping { return countsTwice{m} }},
		"without a TTL all are idle": {"no-ttl", func(m mutant) sweeping { m.TTL = 1; return m }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[opener]{
				Violations: checkpointtest.SweepViolations,
				Blocking:   []string{"idle"},
			}.Convict(t, c.clause, func() opener {
				return func(ttl time.Duration) sweeping { return c.broken(withTTL(ttl)) }
			})
		})
	}
}

func TestSweeperAccepts(t *testing.T) {
	right := func() opener {
		return func(ttl time.Duration) sweeping { return withTTL(ttl) }
	}
	for name, err := range checkpointtest.SweepViolations(t.Context(), right) {
		t.Errorf("%s: %v", name, err)
	}
}

func withTTL(ttl time.Duration) mutant {
	m := newMutant()
	m.TTL = ttl
	return m
}

// forgetsDebts does not note that a reply is owed.
type forgetsDebts struct{ mutant }

func (f forgetsDebts) Append(
	ctx context.Context, l checkpoint.Lease, cp checkpoint.Checkpoint, o checkpoint.AppendOptions,
) error {
	o.Owes = false
	return f.mutant.Append(ctx, l, cp, o)
}

// sweepsMarked takes a session for idle although its owner has just marked it.
type sweepsMarked struct {
	mutant
	marked []checkpoint.Key
}

func (s *sweepsMarked) Mark(ctx context.Context, l checkpoint.Lease, m checkpoint.Marks) error {
	if m.Delivered > 0 {
		s.marked = append(s.marked, l.Key)
	}
	return s.mutant.Mark(ctx, l, m)
}

func (s *sweepsMarked) Sweep(ctx context.Context, limit int) (retired int, err error) {
	retired, err = s.mutant.Sweep(ctx, limit)
	for _, k := range s.marked {
		if err == nil {
			err = s.Delete(ctx, checkpoint.Lease{Key: k, Fence: s.fence(k)})
			retired++
		}
	}
	s.marked = nil
	return retired, err
}

type unlimited struct{ mutant }

func (u unlimited) Sweep(ctx context.Context, _ int) (int, error) { return u.mutant.Sweep(ctx, 0) }

type countsTwice struct{ mutant }

func (c countsTwice) Sweep(ctx context.Context, limit int) (int, error) {
	retired, err := c.mutant.Sweep(ctx, limit)
	return 2 * retired, err
}
