package turnlogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/turnlog"
)

// A DamagingLog can damage the first entry of a run, as a manual change in the database or a lost block of its disk
// does. Only the tests of a backend know how to do so.
type DamagingLog interface {
	turnlog.Lister

	// Damage changes what is stored of the first entry so that no log could have written it.
	Damage(ctx context.Context, run string) error
}

// RunDamaged checks the clauses about damaged entries. newLog must return an empty log each time it is called.
func RunDamaged(t *testing.T, newLog func(t *testing.T) DamagingLog) { damageContract().Run(t, newLog) }

// DamageViolations is [Violations] for the clauses about damaged entries.
func DamageViolations(ctx context.Context, newLog func() DamagingLog, names ...string) map[string]error {
	return damageContract().Violations(ctx, newLog, names...)
}

func damageContract() suite.Clauses[DamagingLog] {
	return suite.Of(damageClauses, func(c damageClause) suite.Clause[DamagingLog] {
		return suite.Clause[DamagingLog]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, l DamagingLog) error {
				c.check(&probe{ctx: ctx, log: l, lister: l}, l)
				return nil
			},
		}
	})
}

// A damageClause is a clause about damaged entries.
type damageClause struct {
	name, rule string
	check      func(p *probe, l DamagingLog)
}

var damageClauses = []damageClause{
	{
		name: "listed",
		rule: "Turns yields a damaged turn with a *DamagedError that names its run, and goes on",
		check: func(p *probe, l DamagingLog) {
			all := p.fleet(90)
			bad := []string{all[0], all[1], all[15], all[16], all[22], all[79], all[80], all[89]}
			damage(p, l, bad...)
			for _, q := range []turnlog.Query{{}, {Open: true}, {Session: "session"}} {
				var got []string
				for s, err := range l.Turns(p.ctx, q) {
					got = append(got, s.First.Run)
					if slices.Contains(bad, s.First.Run) {
						wantDamage(err, s.First.Run)
					} else {
						ok(err)
					}
				}
				if !slices.Equal(got, all) {
					fail("%+v selects %q, want %q", q, got, all)
				}
			}
		},
	},
	{
		name: "restored",
		rule: "Restore of a damaged run is a *DamagedError with the entries that can be read; " +
			"other runs are not concerned",
		check: func(p *probe, l DamagingLog) {
			all := p.fleet(3)
			damage(p, l, all[1])
			got, err := l.Restore(p.ctx, all[1])
			wantDamage(err, all[1])
			if len(got) == 0 || got[len(got)-1].Phase != turnlog.LLMComplete {
				fail("%d entries come with the error, want the second: %s", len(got), list(got))
			}
			for _, run := range []string{all[0], all[2]} {
				if got := p.restore(run); len(got) != 2 {
					fail("run %q has %d entries", run, len(got))
				}
			}
		},
	},
	{
		name: "recorded",
		rule: "a damaged entry does not keep its run, or another, from passing further phases",
		check: func(p *probe, l DamagingLog) {
			all := p.fleet(2)
			damage(p, l, all[0])
			for _, run := range all {
				p.record(entry(run, turnlog.Settled, 1000))
			}
			if got := p.runs(turnlog.Query{Open: true}); len(got) != 0 {
				fail("open are %q", got)
			}
		},
	},
}

// fleet records n runs of two entries, and returns their ids in order.
func (p *probe) fleet(n int) []string {
	runs := make([]string, n)
	for i := range runs {
		runs[i] = fmt.Sprintf("run %02d", i)
		p.record(entry(runs[i], turnlog.Started, i), entry(runs[i], turnlog.LLMComplete, 500+i))
	}
	return runs
}

func damage(p *probe, l DamagingLog, runs ...string) {
	for _, run := range runs {
		ok(l.Damage(p.ctx, run))
	}
}

// wantDamage shows that err is about one run, and names that run.
func wantDamage(err error, run string) {
	damage, is := errors.AsType[*turnlog.DamagedError](err)
	if !is || !errors.Is(err, turnlog.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.ID != run || damage.Reason == "" {
		fail("the error names %q because of %q, want %q and a reason", damage.ID, damage.Reason, run)
	}
}
