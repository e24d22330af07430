package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
)

// A DamagingStore can damage a run or a step, as a manual change in the database or a lost block of its disk does. Only
// the tests of a backend know how to do so.
type DamagingStore interface {
	workflow.Store

	// Damage changes what is stored so that no store could have written it: of a step of a run, or of the run itself if
	// step is "". Its id and its name stay.
	Damage(ctx context.Context, run, step string) error
}

// RunDamaged checks the clauses about damaged runs and steps. newStore must return an empty store each time it is
// called.
func RunDamaged(t *testing.T, newStore func(t *testing.T) DamagingStore) {
	bound(damageClauses).Run(t, newStore)
}

// DamageViolations is [Violations] for the clauses about damaged runs and steps.
func DamageViolations(ctx context.Context, newStore func() DamagingStore, names ...string) map[string]error {
	return bound(damageClauses).Violations(ctx, newStore, names...)
}

var damageClauses = []clauseOn[DamagingStore]{
	{
		name: "listed",
		rule: "Runs yields a damaged run with a *DamagedError that names it, and goes on",
		check: func(p *probe, s DamagingStore) {
			const n = 90
			var batch []workflow.NewRun
			for i := range n {
				batch = append(batch, starting(fmt.Sprintf("r%02d", i)))
			}
			p.start(batch...)
			bad := []string{"r00", "r01", "r15", "r16", "r22", "r79", "r80", "r89"}
			p.damage(s, "", bad...)
			var got []string
			for r, err := range s.Runs(p.ctx, workflow.Query{}) {
				got = append(got, r.ID)
				if slices.Contains(bad, r.ID) {
					wantDamage(err, r.ID, "")
				} else {
					ok(err)
				}
			}
			slices.Sort(got)
			if len(got) != n || len(slices.Compact(got)) != n {
				fail("Runs yields %d runs, want %d: %q", len(got), n, got)
			}
		},
	},
	{
		name: "alone",
		rule: "a query of its id yields a damaged run with a *DamagedError, and of another the other",
		check: func(p *probe, s DamagingStore) {
			p.start(starting("r"), starting("beside"))
			p.damage(s, "", "r")
			n := 0
			for r, err := range s.Runs(p.ctx, workflow.Query{ID: "r"}) {
				wantDamage(err, "r", "")
				if n++; r.ID != "r" {
					fail("the damaged run comes as %s", text(r))
				}
			}
			if p.run("beside"); n != 1 {
				fail("Runs yields the damaged run %d times", n)
			}
			_, err := workflow.NewClient(s).Get(p.ctx, "r")
			wantDamage(err, "r", "")
		},
	},
	{
		name: "steps",
		rule: "Steps yields a damaged step with a *DamagedError that names it, and goes on; other runs are not " +
			"concerned",
		check: func(p *probe, s DamagingStore) {
			for _, id := range []string{"r", "beside"} {
				f := p.begins(id)
				p.write(entry(id, f, workflow.Stay, done("a"), done("b"), done("c")))
				p.tell(signal(id, "e", `1`), workflow.Kept)
			}
			p.damage(s, "b", "r")
			var got []string
			for st, err := range s.Steps(p.ctx, "r") {
				if got = append(got, st.Name); st.Name == "b" {
					wantDamage(err, "r", "b")
				} else {
					ok(err)
				}
			}
			if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c", "e"}) {
				fail("Steps yields %q", got)
			}
			p.wantSteps("beside", "a done", "b done", "c done")
		},
	},
	{
		name: "steps-run",
		rule: "a run with a damaged step is whole itself: its owner goes on, and it is found",
		check: func(p *probe, s DamagingStore) {
			f := p.begins("r")
			p.write(entry("r", f, workflow.Stay, done("a"), done("b")))
			p.damage(s, "b", "r")
			p.write(entry("r", f, workflow.Stay, done("c")))
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.write(later("r", f, 1))
			c := p.claimed("r", plain("b"))
			p.write(entry("r", c.Fence, workflow.End))
			if r := p.run("r"); r.Status != workflow.Completed {
				fail("the run is %s", text(r))
			}
		},
	},
	{
		name: "beside",
		rule: "a damaged run does not concern others: they are claimed, written, signalled and counted",
		check: func(p *probe, s DamagingStore) {
			p.start(starting("r"), owned("owned"), starting("due"))
			p.damage(s, "", "r")
			for _, got := range [][]workflow.Claimed{p.tries("b"), p.tries("b")} {
				for _, c := range got {
					if c.ID == "due" {
						p.write(entry("due", c.Fence, workflow.Stay, done("s")))
					}
				}
			}
			p.wantSteps("due", "s done")
			p.write(entry("owned", owned("owned").Fence, workflow.Stay, done("s")))
			p.tell(signal("owned", "e", `1`), workflow.Kept)
			p.start(starting("new"))
			p.claimed("new", plain("c"))
		},
	},
	{
		name: "cancelled",
		rule: "a damaged run can be cancelled",
		check: func(p *probe, s DamagingStore) {
			p.start(starting("r"))
			p.damage(s, "", "r")
			receipts, err := s.Send(p.ctx, []workflow.Message{{Run: "r", Action: workflow.Cancel}})
			if ok(err); receipts[0] != workflow.Applied && receipts[0] != workflow.Over {
				fail("the cancellation of a damaged run is %s", receipts[0])
			}
			p.wantNone(plain("b"))
		},
	},
}

func (p *probe) damage(s DamagingStore, step string, runs ...string) {
	for _, id := range runs {
		ok(s.Damage(p.ctx, id, step))
	}
}

// tries claims what is due. What the claim gets of a damaged run depends on the damage.
func (p *probe) tries(process string) []workflow.Claimed {
	all, _, err := p.store.Claim(p.ctx, many(process))
	ok(err)
	return all
}

// wantDamage shows that err is about one run, or about a step of it, and names that.
func wantDamage(err error, run, step string) {
	damage, is := errors.AsType[*workflow.DamagedError](err)
	if !is || !errors.Is(err, workflow.ErrDamaged) {
		fail("got error %v, want a *DamagedError", err)
		return
	}
	if damage.ID != run || damage.What != "run" || damage.Reason == "" || !strings.Contains(damage.Reason, step) {
		fail("the error names %s %q because of %q, want %q %q and a reason", damage.What, damage.ID, damage.Reason, run,
			step)
	}
}
