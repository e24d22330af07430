package ledgertest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ledger/ledgertest"
	"github.com/holdfast-go/holdfast/lock"
)

// A spoiled Memory remembers which effects are damaged, and reports them as a backend does.
type spoiled struct {
	*ledger.Memory
	bad map[string]bool
}

func newSpoiled() *spoiled { return &spoiled{new(ledger.Memory), make(map[string]bool)} }

func (s *spoiled) Damage(_ context.Context, id string) error {
	s.bad[id] = true
	return nil
}

func (s *spoiled) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	if s.bad[e.ID] {
		return ledger.Effect{}, false, ledger.Damaged(e.ID, errors.New("spoiled"))
	}
	return s.Memory.Issue(ctx, e, again)
}

func (s *spoiled) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if s.bad[id] {
		return ledger.Effect{}, ledger.Damaged(id, errors.New("spoiled"))
	}
	return s.Memory.Finish(ctx, id, n, o)
}

func (s *spoiled) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	if s.bad[e.ID] {
		return ledger.Effect{}, ledger.Damaged(e.ID, errors.New("spoiled"))
	}
	return s.Memory.Record(ctx, e)
}

func (s *spoiled) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range s.Memory.Effects(ctx, q) {
			if s.bad[e.ID] {
				err = ledger.Damaged(e.ID, errors.New("spoiled"))
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func TestDamaged(t *testing.T) {
	ledgertest.RunDamaged(t, func(*testing.T) ledgertest.DamagingLedger { return newSpoiled() })
}

type (
	stopsAtDamage struct{ *spoiled }
	hidesDamage   struct{ *spoiled }
	issuesDamaged struct{ *spoiled }
	adoptsNone    struct{ *spoiled }
	repairs       struct{ *spoiled }
	records       struct{ *spoiled }
)

// repairs takes a result for what is damaged, and records overwrites what is damaged.
func (l repairs) Finish(ctx context.Context, id string, n int, o ledger.Outcome) (ledger.Effect, error) {
	if o.State == ledger.Completed {
		delete(l.bad, id)
	}
	return l.spoiled.Finish(ctx, id, n, o)
}

func (l records) Record(ctx context.Context, e ledger.Effect) (ledger.Effect, error) {
	return l.Memory.Record(ctx, e)
}

func (l stopsAtDamage) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return func(yield func(ledger.Effect, error) bool) {
		for e, err := range l.spoiled.Effects(ctx, q) {
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (l hidesDamage) Effects(ctx context.Context, q ledger.Query) iter.Seq2[ledger.Effect, error] {
	return l.Memory.Effects(ctx, q)
}

func (l issuesDamaged) Issue(ctx context.Context, e ledger.Effect, again bool) (ledger.Effect, bool, error) {
	return l.Memory.Issue(ctx, e, again)
}

func (l adoptsNone) Adopt(ctx context.Context, run string, f lock.Fence) error {
	for _, err := range l.spoiled.Effects(ctx, ledger.Query{RunID: run}) {
		if err != nil {
			return err
		}
	}
	return l.Memory.Adopt(ctx, run, f)
}

func TestSuiteConvictsDamage(t *testing.T) {
	trial := suite.Trial[ledgertest.DamagingLedger]{Violations: ledgertest.DamageViolations}
	for name, c := range map[string]struct {
		clause string
		broken func(*spoiled) ledgertest.DamagingLedger
	}{
		"a list that ends at damage":    {"listed", func(s *spoiled) ledgertest.DamagingLedger { return stopsAtDamage{s} }},
		"a list that hides damage":      {"listed-alone", func(s *spoiled) ledgertest.DamagingLedger { return hidesDamage{s} }},
		"an Issue of what is damaged":   {"issue", func(s *spoiled) ledgertest.DamagingLedger { return issuesDamaged{s} }},
		"a Finish that repairs":         {"finish", func(s *spoiled) ledgertest.DamagingLedger { return repairs{s} }},
		"a Record that repairs":         {"finish", func(s *spoiled) ledgertest.DamagingLedger { return records{s} }},
		"an Adopt that stops at damage": {"adopt", func(s *spoiled) ledgertest.DamagingLedger { return adoptsNone{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() ledgertest.DamagingLedger { return c.broken(newSpoiled()) })
		})
	}
}
