package turnlogtest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A spoiled Memory remembers which runs are damaged, and reports them as a backend does.
type spoiled struct {
	*turnlog.Memory
	bad map[string]bool
}

func newSpoiled() *spoiled { return &spoiled{new(turnlog.Memory), make(map[string]bool)} }

func (s *spoiled) Damage(_ context.Context, run string) error {
	s.bad[run] = true
	return nil
}

func (s *spoiled) damage(run string) error {
	if s.bad[run] {
		return turnlog.Damaged(run, errors.New("spoiled"))
	}
	return nil
}

func (s *spoiled) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := s.Memory.Restore(ctx, run)
	if s.bad[run] && len(all) > 0 {
		all = all[1:]
	}
	return all, errors.Join(err, s.damage(run))
}

func (s *spoiled) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		for t, err := range s.Memory.Turns(ctx, q) {
			if err == nil {
				err = s.damage(t.First.Run)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	turnlogtest.RunDamaged(t, func(*testing.T) turnlogtest.DamagingLog { return newSpoiled() })
}

type (
	stopsAtDamage  struct{ *spoiled }
	hidesDamage    struct{ *spoiled }
	restoresNone   struct{ *spoiled }
	refusesDamaged struct{ *spoiled }
)

func (l stopsAtDamage) Turns(ctx context.Context, q turnlog.Query) iter.Seq2[turnlog.Summary, error] {
	return func(yield func(turnlog.Summary, error) bool) {
		for t, err := range l.spoiled.Turns(ctx, q) {
			if !yield(t, err) || err != nil {
				return
			}
		}
	}
}

func (l hidesDamage) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	return l.Memory.Restore(ctx, run)
}

func (l restoresNone) Restore(ctx context.Context, run string) ([]turnlog.Entry, error) {
	all, err := l.spoiled.Restore(ctx, run)
	if err != nil {
		return nil, err
	}
	return all, nil
}

func (l refusesDamaged) Record(ctx context.Context, e turnlog.Entry) error {
	return errors.Join(l.damage(e.Run), l.Memory.Record(ctx, e))
}

func TestSuiteConvictsDamage(t *testing.T) {
	trial := suite.Trial[turnlogtest.DamagingLog]{Violations: turnlogtest.DamageViolations}
	for name, c := range map[string]struct {
		clause string
		broken func(*spoiled) turnlogtest.DamagingLog
	}{
		"a list that ends at damage":          {"listed", func(s *spoiled) turnlogtest.DamagingLog { return stopsAtDamage{s} }},
		"a Restore that hides damage":         {"restored", func(s *spoiled) turnlogtest.DamagingLog { return hidesDamage{s} }},
		"a Restore that returns none":         {"restored", func(s *spoiled) turnlogtest.DamagingLog { return restoresNone{s} }},
		"a Record that refuses a damaged run": {"recorded", func(s *spoiled) turnlogtest.DamagingLog { return refusesDamaged{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() turnlogtest.DamagingLog { return c.broken(newSpoiled()) })
		})
	}
}
