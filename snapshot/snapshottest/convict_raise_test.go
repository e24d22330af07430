package snapshottest_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

type raising = snapshottest.RaisingStore

// Each of these stores leaves an owner of before, or ends more than owners.
func TestRaiseConvicts(t *testing.T) {
	for name, c := range map[string]struct {
		clause string
		broken func(m *snapshot.Memory) raising
	}{
		"it raises nothing":           {"raise", func(m *snapshot.Memory) raising { return raisesNothing{m} }},
		"it raises by one":            {"raise", func(m *snapshot.Memory) raising { return raisesByOne{m} }},
		"what is raised is damaged":   {"raise-shown", func(m *snapshot.Memory) raising { return damagesRaised{m} }},
		"it raises what is in flight": {"raise-kept", func(m *snapshot.Memory) raising { return raisesInFlight{m} }},
		"a second Raise does nothing": {"raise-again", func(m *snapshot.Memory) raising { return &raisesOnce{Memory: m} }},
		"it goes on when ctx is over": {"raise-cancelled", func(m *snapshot.Memory) raising { return raisesAnyway{m} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.Trial[raising]{Violations: snapshottest.RaiseViolations}.Convict(t, c.clause,
				func() raising { return c.broken(new(snapshot.Memory)) })
		})
	}
}

type raisesNothing struct{ *snapshot.Memory }

func (raisesNothing) Raise(context.Context, time.Time) (int, error) { return 1, nil }

// raisesByOne takes the run by the next epoch.
type raisesByOne struct{ *snapshot.Memory }

func (s raisesByOne) Raise(ctx context.Context, _ time.Time) (n int, err error) {
	for r, err := range s.Runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
		if err != nil {
			return n, err
		}
		if _, err := s.Adopt(ctx, r.Key, lock.Fence{Epoch: r.Fence.Epoch + 1, Nonce: "raised"}, 0); err != nil {
			return n, err
		}
		n++
	}
	return n, ctx.Err()
}

// damagesRaised takes a run whose owner was ended for damaged.
type damagesRaised struct{ *snapshot.Memory }

func (s damagesRaised) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for r, err := range s.Memory.Runs(ctx, q) {
			if err == nil && r.Fence.Nonce == "raised" {
				err = &snapshot.DamagedError{Key: r.Key, Reason: "nonce"}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// raisesInFlight leaves the fences of sessions without a run.
type raisesInFlight struct{ *snapshot.Memory }

func (s raisesInFlight) Raise(ctx context.Context, lost time.Time) (int, error) {
	for _, err := range s.Runs(ctx, snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
		if err != nil {
			return 0, err
		}
		return s.Memory.Raise(ctx, lost)
	}
	return 2, nil
}

type raisesOnce struct {
	*snapshot.Memory
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

type raisesAnyway struct{ *snapshot.Memory }

func (s raisesAnyway) Raise(ctx context.Context, lost time.Time) (int, error) {
	n, err := s.Memory.Raise(context.WithoutCancel(ctx), lost)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return n, err
}
