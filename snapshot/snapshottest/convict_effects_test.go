package snapshottest_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// Each broken SaveEffects must be caught by the clause that it breaks.
func TestSuiteConvictsEffects(t *testing.T) {
	type pair = func() (snapshottest.CarryingStore, snapshottest.RaisingLedger)
	trial := suite.Trial[pair]{
		Violations: func(ctx context.Context, open func() pair, names ...string) map[string]error {
			return snapshottest.EffectJoinViolations(ctx, open(), names...)
		},
	}
	type stores = func(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects
	for name, c := range map[string]struct {
		clause string
		save   stores
	}{
		"the effects are forgotten":    {"carry-issues", savesOnly},
		"the outcomes are forgotten":   {"carry-finishes", without(func(b *ledger.Batch) { b.Finish = nil })},
		"the run is forgotten":         {"carry-saves", issuesOnly},
		"two transactions":             {"carry-atomic", issuesThenSaves},
		"the save first":               {"carry-plain", savesThenIssues},
		"the effects first":            {"carry-fence", issuesThenSaves},
		"the fence of the ledger":      {"carry-adopts", savesOnly},
		"a repeat issues again":        {"carry-repeat", issuesAgain},
		"a Raise is not heeded":        {"carry-raise", ignoresRaise},
		"nothing is checked":           {"carry-invalid", without(func(b *ledger.Batch) { *b = ledger.Batch{} })},
		"what is known is passed over": {"carry-race", dropsKnown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() pair {
				return func() (snapshottest.CarryingStore, snapshottest.RaisingLedger) {
					runs, effects := new(snapshot.Memory), new(ledger.Memory)
					return &carrying{runs, c.save(runs, effects)}, effects
				}
			})
		})
	}
}

// The clauses accept a correct SaveEffects.
func TestSuiteAcceptsEffects(t *testing.T) {
	found := snapshottest.EffectJoinViolations(t.Context(),
		func() (snapshottest.CarryingStore, snapshottest.RaisingLedger) {
			return new(snapshot.Memory), new(ledger.Memory)
		})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %v", name, found[name])
	}
}

// carrying is a store with another SaveEffects.
type carrying struct {
	snapshot.Store
	save snapshot.SaveEffects
}

func (c *carrying) JoinEffects(ledger.Ledger) snapshot.SaveEffects { return c.save }

func savesOnly(runs *snapshot.Memory, _ *ledger.Memory) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, _ ledger.Batch) (bool, error) {
		err := runs.Save(ctx, r)
		return err == nil, err
	}
}

func issuesOnly(_ *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		return effects.Carry(ctx, r.ID, r.Fence, b)
	}
}

// without is a SaveEffects that sees less of the batch.
func without(less func(*ledger.Batch)) func(*snapshot.Memory, *ledger.Memory) snapshot.SaveEffects {
	return func(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
		save := runs.JoinEffects(effects)
		return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
			less(&b)
			return save(ctx, r, b)
		}
	}
}

// issuesThenSaves lets an effect be seen, and run, before the run is saved.
func issuesThenSaves(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	save := runs.JoinEffects(effects)
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		for _, e := range b.Issue {
			if _, _, err := effects.Issue(ctx, e, false); err != nil {
				return false, err
			}
		}
		pause()
		b.Issue = nil
		return save(ctx, r, b)
	}
}

func savesThenIssues(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		if err := runs.Save(ctx, r); err != nil {
			return false, err
		}
		return effects.Carry(ctx, r.ID, r.Fence, b)
	}
}

func issuesAgain(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	save := runs.JoinEffects(effects)
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		taken, err := save(ctx, r, b)
		if err == nil && taken {
			_, err = effects.Carry(ctx, r.ID, r.Fence, ledger.Batch{Issue: b.Issue})
		}
		return taken, err
	}
}

// ignoresRaise makes each effect one that no Raise concerns.
func ignoresRaise(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	save := runs.JoinEffects(effects)
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		b.Issue = slices.Clone(b.Issue)
		for i := range b.Issue {
			b.Issue[i].Began = time.Now().Add(24 * time.Hour)
		}
		return save(ctx, r, b)
	}
}

// dropsKnown saves the run although an effect is known.
func dropsKnown(runs *snapshot.Memory, effects *ledger.Memory) snapshot.SaveEffects {
	save := runs.JoinEffects(effects)
	return func(ctx context.Context, r snapshot.Run, b ledger.Batch) (bool, error) {
		b.Issue = slices.DeleteFunc(slices.Clone(b.Issue), func(e ledger.Effect) bool {
			_, err := ledger.Load(ctx, effects, ledger.Query{ID: e.ID})
			return err == nil
		})
		return save(ctx, r, b)
	}
}
