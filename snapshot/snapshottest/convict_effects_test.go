package snapshottest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Each broken SaveEffects must be caught by the clause that it breaks.
func TestSuiteConvictsEffects(t *testing.T) {
	type open = func() snapshottest.Joinable
	trial := suite.Trial[open]{
		Violations: func(ctx context.Context, stores func() open, names ...string) map[string]error {
			return snapshottest.EffectJoinViolations(ctx, stores(), names...)
		},
	}
	for name, c := range map[string]struct {
		clause string
		save   breaking
	}{
		"the effects are forgotten":    {"carry-issues", savesOnly},
		"the outcomes are forgotten":   {"carry-finishes", without(func(c *snapshot.Cargo) { c.Finish = nil })},
		"the run is forgotten":         {"carry-saves", issuesOnly},
		"two transactions":             {"carry-atomic", issuesThenSaves},
		"the save first":               {"carry-plain", savesThenIssues},
		"the effects first":            {"carry-fence", issuesThenSaves},
		"the fence of the ledger":      {"carry-adopts", savesOnly},
		"a repeat issues again":        {"carry-repeat", issuesAgain},
		"a Raise is not heeded":        {"carry-raise", ignoresRaise},
		"nothing is checked":           {"carry-invalid", without(func(c *snapshot.Cargo) { *c = snapshot.Cargo{} })},
		"what is known is passed over": {"carry-race", dropsKnown},
		"the entries are forgotten":    {"carry-logs", without(func(c *snapshot.Cargo) { c.Log = nil })},
		"an entry is enough":           {"carry-logs", without(func(c *snapshot.Cargo) { c.Log = c.Log[:min(1, len(c.Log))] })},
		"an entry is recorded again":   {"carry-known", logsApart},
		"the entries first":            {"carry-atomic", logsApart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, c.clause, func() open {
				return func() snapshottest.Joinable {
					s := memories{new(snapshot.Memory), new(ledger.Memory), new(turnlog.Memory)}
					return snapshottest.Joinable{Runs: &carrying{s.runs, c.save(s)}, Effects: s.effects, Log: s.log}
				}
			})
		})
	}
}

// The clauses accept a correct SaveEffects.
func TestSuiteAcceptsEffects(t *testing.T) {
	found := snapshottest.EffectJoinViolations(t.Context(), func() snapshottest.Joinable {
		return snapshottest.Joinable{Runs: new(snapshot.Memory), Effects: new(ledger.Memory), Log: new(turnlog.Memory)}
	})
	for _, name := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %v", name, found[name])
	}
}

// memories are stores that can be joined.
type memories struct {
	runs    *snapshot.Memory
	effects *ledger.Memory
	log     *turnlog.Memory
}

func (m memories) join() snapshot.SaveEffects { return m.runs.JoinEffects(m.effects, m.log) }

// breaking returns a SaveEffects that breaks a rule.
type breaking = func(memories) snapshot.SaveEffects

// carrying is a store with another SaveEffects.
type carrying struct {
	snapshot.Store
	save snapshot.SaveEffects
}

func (c *carrying) JoinEffects(ledger.Ledger, turnlog.Log) snapshot.SaveEffects { return c.save }

func savesOnly(m memories) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, _ snapshot.Cargo) (bool, error) {
		err := m.runs.Save(ctx, r)
		return err == nil, err
	}
}

func issuesOnly(m memories) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		return m.effects.Carry(ctx, r.ID, r.Fence, c.Batch)
	}
}

// without is a SaveEffects that sees less of the batch.
func without(less func(*snapshot.Cargo)) breaking {
	return func(m memories) snapshot.SaveEffects {
		save := m.join()
		return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
			less(&c)
			return save(ctx, r, c)
		}
	}
}

// issuesThenSaves lets an effect be seen, and run, before the run is saved.
func issuesThenSaves(m memories) snapshot.SaveEffects {
	save := m.join()
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		for _, e := range c.Issue {
			if _, _, err := m.effects.Issue(ctx, e, false); err != nil {
				return false, err
			}
		}
		pause()
		c.Issue = nil
		return save(ctx, r, c)
	}
}

func savesThenIssues(m memories) snapshot.SaveEffects {
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		if err := m.runs.Save(ctx, r); err != nil {
			return false, err
		}
		return m.effects.Carry(ctx, r.ID, r.Fence, c.Batch)
	}
}

func issuesAgain(m memories) snapshot.SaveEffects {
	save := m.join()
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		taken, err := save(ctx, r, c)
		if err == nil && taken {
			_, err = m.effects.Carry(ctx, r.ID, r.Fence, ledger.Batch{Issue: c.Issue})
		}
		return taken, err
	}
}

// ignoresRaise makes each effect one that no Raise concerns.
func ignoresRaise(m memories) snapshot.SaveEffects {
	save := m.join()
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		c.Issue = slices.Clone(c.Issue)
		for i := range c.Issue {
			c.Issue[i].Began = time.Now().Add(24 * time.Hour)
		}
		return save(ctx, r, c)
	}
}

// dropsKnown saves the run although an effect is known.
func dropsKnown(m memories) snapshot.SaveEffects {
	save := m.join()
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		c.Issue = slices.DeleteFunc(slices.Clone(c.Issue), func(e ledger.Effect) bool {
			_, err := ledger.Load(ctx, m.effects, ledger.Query{ID: e.ID})
			return err == nil
		})
		return save(ctx, r, c)
	}
}

// logsApart records the entries in a transaction of their own.
func logsApart(m memories) snapshot.SaveEffects {
	save := m.join()
	return func(ctx context.Context, r snapshot.Run, c snapshot.Cargo) (bool, error) {
		for _, e := range c.Log {
			if err := m.log.Record(ctx, e); errors.Is(err, turnlog.ErrChanged) {
				return false, nil
			} else if err != nil {
				return false, err
			}
		}
		pause()
		c.Log = nil
		return save(ctx, r, c)
	}
}
