package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/ledger"
)

// A DamagingLedger can damage an effect, as a manual change in the database or a lost block of its disk does. Only the
// tests of a backend know how to do so.
type DamagingLedger interface {
	ledger.Ledger

	// Damage changes the stored effect so that no ledger could have written it.
	Damage(ctx context.Context, id string) error
}

// RunDamaged checks the clauses about damaged effects. newLedger must return an empty ledger each time it is called.
func RunDamaged(t *testing.T, newLedger func(t *testing.T) DamagingLedger) {
	damageContract().Run(t, newLedger)
}

// DamageViolations is [Violations] for the clauses about damaged effects.
func DamageViolations(ctx context.Context, newLedger func() DamagingLedger, names ...string) map[string]error {
	return damageContract().Violations(ctx, newLedger, names...)
}

func damageContract() suite.Clauses[DamagingLedger] {
	return suite.Of(damageClauses, func(c damageClause) suite.Clause[DamagingLedger] {
		return suite.Clause[DamagingLedger]{
			Name: c.name, Rule: c.rule, Check: func(ctx context.Context, l DamagingLedger) error {
				c.check(&probe{ctx: ctx, ledger: l}, l)
				return nil
			},
		}
	})
}

// A damageClause is a clause about damaged effects.
type damageClause struct {
	name, rule string
	check      func(p *probe, l DamagingLedger)
}

var damageClauses = []damageClause{
	{
		name: "listed",
		rule: "Effects yields a damaged effect with a *DamagedError that names it, and goes on",
		check: func(p *probe, l DamagingLedger) {
			all := p.fleet(90)
			bad := []string{all[0], all[1], all[15], all[16], all[22], all[79], all[80], all[89]}
			damage(p, l, bad...)
			for _, q := range []ledger.Query{{}, {Open: true}, {RunID: "run"}, {Session: "session of run"}} {
				p.wantDamaged(q, all, bad)
			}
		},
	},
	{
		name: "listed-alone",
		rule: "a query for one id yields its damaged effect, and none for the effect beside it",
		check: func(p *probe, l DamagingLedger) {
			all := p.fleet(3)
			damage(p, l, all[1])
			for _, id := range all {
				p.wantDamaged(ledger.Query{ID: id}, []string{id}, all[1:2])
			}
		},
	},
	{
		name: "issue",
		rule: "Issue of a damaged effect is a *DamagedError and does not issue it",
		check: func(p *probe, l DamagingLedger) {
			all := p.fleet(1)
			damage(p, l, all...)
			_, issued, err := l.Issue(p.ctx, effect("run", all[0], highest), false)
			if wantDamage(err, all[0]); issued {
				fail("a damaged effect is issued")
			}
		},
	},
	{
		name: "finish",
		rule: "Finish, Record and an answer for a damaged effect are a *DamagedError",
		check: func(p *probe, l DamagingLedger) {
			all := p.fleet(1)
			damage(p, l, all...)
			for _, o := range []ledger.Outcome{paid, unknown, {State: ledger.Skipped, By: "Ann", Sure: true}} {
				_, err := l.Finish(p.ctx, all[0], 1, o)
				wantDamage(err, all[0])
			}
			wantDamage(p.resolve(all[0], ledger.Answer{By: "Ann", Sure: true}), all[0])
			_, err := l.Record(p.ctx, pure("run", all[0], `1`))
			wantDamage(err, all[0])
		},
	},
	{
		name: "adopt",
		rule: "a damaged effect does not keep another owner from adopting the run",
		check: func(p *probe, l DamagingLedger) {
			all := p.fleet(2)
			damage(p, l, all[0])
			p.adopt("run", highest)
			p.wantState(all[1], ledger.Unknown, 1)
			p.issue(effect("run", "next", highest))
		},
	},
}

// fleet issues n effects of one run and returns their ids, in order.
func (p *probe) fleet(n int) []string {
	f := fence(10)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("e%02d", i)
		p.issue(effect("run", ids[i], f))
	}
	return ids
}

func damage(p *probe, l DamagingLedger, ids ...string) {
	for _, id := range ids {
		ok(l.Damage(p.ctx, id))
	}
}

// wantDamaged compares what q selects: the ids, and which of the effects are damaged.
func (p *probe) wantDamaged(q ledger.Query, all, damaged []string) {
	var got []string
	for e, err := range p.ledger.Effects(p.ctx, q) {
		got = append(got, e.ID)
		if slices.Contains(damaged, e.ID) {
			wantDamage(err, e.ID)
		} else {
			ok(err)
		}
	}
	if !slices.Equal(got, all) {
		fail("%+v selects %q, want %q", q, got, all)
	}
}

// wantDamage shows that err is about one effect, and names that effect.
func wantDamage(err error, id string) {
	damage, is := errors.AsType[*ledger.DamagedError](err)
	if !is || !errors.Is(err, ledger.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.ID != id || damage.Reason == "" {
		fail("the error names %q because of %q, want %q and a reason", damage.ID, damage.Reason, id)
	}
}
