package workflowtest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// A spoiled Memory remembers which runs and steps are damaged, and reports them as a backend does.
type spoiled struct {
	*broken
	bad map[[2]string]bool // a run, and a step of it
}

var errSpoiled = errors.New("spoiled")

func newSpoiled() *spoiled {
	s := &spoiled{newBroken(), make(map[[2]string]bool)}
	claim := s.claim
	s.claim = func(ctx context.Context, q request) ([]claimed, duration, error) {
		all, next, err := claim(ctx, q)
		return slices.DeleteFunc(all, func(c claimed) bool { return s.bad[[2]string{c.ID}] }), next, err
	}
	return s
}

func (s *spoiled) Damage(_ context.Context, id, step string) error {
	s.bad[[2]string{id, step}] = true
	return nil
}

func (s *spoiled) Runs(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
	return func(yield func(run, error) bool) {
		for r, err := range s.broken.Runs(ctx, q) {
			if err == nil && s.bad[[2]string{r.ID}] {
				err = workflow.Damaged(r.ID, errSpoiled)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (s *spoiled) Steps(ctx context.Context, id string) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for st, err := range s.broken.Steps(ctx, id) {
			if err == nil && s.bad[[2]string{id, st.Name}] {
				err = workflow.DamagedStep(id, st.Name, errSpoiled)
			}
			if !yield(st, err) {
				return
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	workflowtest.RunDamaged(t, func(*testing.T) workflowtest.DamagingStore { return newSpoiled() })
}

type (
	stopsAtDamage struct{ *spoiled }
	hidesDamage   struct{ *spoiled }
	leavesDamage  struct{ *spoiled }
	stopsSteps    struct{ *spoiled }
	damagedWrites struct{ *spoiled }
	damagedClaims struct{ *spoiled }
	damagedSends  struct{ *spoiled }
)

// until yields up to the first error.
func until[T any](all iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range all {
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

func (s stopsAtDamage) Runs(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
	return until(s.spoiled.Runs(ctx, q))
}

func (s hidesDamage) Runs(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
	return s.broken.Runs(ctx, q)
}

func (s leavesDamage) Runs(ctx context.Context, q workflow.Query) iter.Seq2[run, error] {
	return func(yield func(run, error) bool) {
		for r, err := range s.spoiled.Runs(ctx, q) {
			if err == nil && !yield(r, nil) {
				return
			}
		}
	}
}

func (s stopsSteps) Steps(ctx context.Context, id string) iter.Seq2[row, error] {
	return until(s.spoiled.Steps(ctx, id))
}

func (s damagedWrites) Write(ctx context.Context, entries []entry) ([]error, error) {
	for _, e := range entries {
		for bad := range s.bad {
			if bad[0] == e.Run {
				return nil, workflow.Damaged(e.Run, errSpoiled)
			}
		}
	}
	return s.spoiled.Write(ctx, entries)
}

func (s damagedClaims) Claim(ctx context.Context, q request) ([]claimed, duration, error) {
	for bad := range s.bad {
		return nil, 0, workflow.Damaged(bad[0], errSpoiled)
	}
	return s.spoiled.Claim(ctx, q)
}

func (s damagedSends) Send(ctx context.Context, messages []message) ([]receipt, error) {
	for _, m := range messages {
		if s.bad[[2]string{m.Run}] {
			return nil, workflow.Damaged(m.Run, errSpoiled)
		}
	}
	return s.spoiled.Send(ctx, messages)
}

func TestSuiteConvictsDamage(t *testing.T) {
	trial := suite.Trial[workflowtest.DamagingStore]{Violations: workflowtest.DamageViolations}
	for what, c := range map[string]struct {
		clause string
		broken func(*spoiled) workflowtest.DamagingStore
	}{
		"a list that ends at damage":       {"listed", func(s *spoiled) workflowtest.DamagingStore { return stopsAtDamage{s} }},
		"a list that leaves damage out":    {"alone", func(s *spoiled) workflowtest.DamagingStore { return leavesDamage{s} }},
		"a list that hides damage":         {"alone", func(s *spoiled) workflowtest.DamagingStore { return hidesDamage{s} }},
		"a journal that ends at damage":    {"steps", func(s *spoiled) workflowtest.DamagingStore { return stopsSteps{s} }},
		"a write that refuses damage":      {"steps-run", func(s *spoiled) workflowtest.DamagingStore { return damagedWrites{s} }},
		"a claim that ends at damage":      {"beside", func(s *spoiled) workflowtest.DamagingStore { return damagedClaims{s} }},
		"a cancellation refused by damage": {"cancelled", func(s *spoiled) workflowtest.DamagingStore { return damagedSends{s} }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() workflowtest.DamagingStore { return c.broken(newSpoiled()) })
		})
	}
}

// A store that reaches a server is convicted by the clause about a server that cannot be reached.
func TestSuiteConvictsReached(t *testing.T) {
	if err := workflowtest.Unreachable(t.Context(), new(workflow.Memory)); err == nil {
		t.Error("a store that takes a run is accepted")
	}
}
