package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// An AgingStore can make all that it keeps older: its clock may go, or all its times may be set back. Only the tests of
// a backend know how to do so.
type AgingStore interface {
	workflow.Store

	// Age lets d pass.
	Age(ctx context.Context, d time.Duration) error
}

// RunAging checks the clauses about deadlines, retention and other long times. newStore must return an empty store each
// time it is called.
func RunAging(t *testing.T, newStore func(t *testing.T) AgingStore) { agingContract().Run(t, newStore) }

// AgingViolations is [Violations] for the clauses about long times. It may run in a bubble of testing/synctest, where a
// store ages as time passes.
func AgingViolations(ctx context.Context, newStore func() AgingStore, names ...string) map[string]error {
	return agingContract().Violations(ctx, newStore, names...)
}

func agingContract() suite.Clauses[AgingStore] {
	all := bound(agingClauses)
	for i, c := range all {
		all[i].Check = func(ctx context.Context, s AgingStore) error {
			return c.Check(context.WithoutCancel(ctx), s) // days may pass
		}
	}
	return all
}

func (p *probe) age(s AgingStore, d time.Duration) { ok(s.Age(p.ctx, d)) }

// day is how retention counts.
const day = 24 * time.Hour

// wantSwept checks how many runs a Sweep deletes.
func (p *probe) wantSwept(limit, want int) {
	deleted, err := p.store.Sweep(p.ctx, limit)
	if ok(err); deleted != want {
		fail("a Sweep of %d deletes %d, want %d", limit, deleted, want)
	}
}

var agingClauses = []clauseOn[AgingStore]{
	{
		name: "deadline",
		rule: "a sleep ends at its deadline and not before, and a claim says how long it is until then",
		check: func(p *probe, s AgingStore) {
			f := p.begins("r")
			p.write(entry("r", f, workflow.Stay, workflow.Step{
				Name: "s", Kind: workflow.KindSleep, Outcome: workflow.Open, For: 3 * time.Hour,
			}))
			e := entry("r", f, workflow.Park)
			e.Due = p.step("r", "s").Until
			p.write(e)
			n := starting("delayed")
			n.Delay = 5 * time.Hour
			p.start(n)
			p.wantNext(plain("b"), 3*time.Hour)
			p.age(s, 2*time.Hour)
			p.wantNext(plain("b"), time.Hour)
			p.age(s, time.Hour-minute)
			p.wantNext(plain("b"), minute)
			p.age(s, 2*minute)
			p.claimed("r", plain("b"))
			p.wantNext(plain("b"), 2*time.Hour-minute)
			p.age(s, 2*time.Hour)
			p.claimed("delayed", plain("b"))
		},
	},
	{
		name: "deadline-wait",
		rule: "a wait with a timeout is over at its deadline, and a wait without one is never over by itself",
		check: func(p *probe, s AgingStore) {
			p.begins("ever")
			f := p.begins("r")
			e := waiting("r", f, "e")
			e.After = time.Hour
			p.write(e, waiting("ever", owned("ever").Fence, "e"))
			p.age(s, time.Hour-minute)
			p.wantNext(plain("b"), minute)
			p.age(s, 2*minute)
			p.claimed("r", plain("b"))
			p.age(s, 300*day)
			p.wantSwept(0, 0)
			p.wantNext(plain("b"), 0)
			p.tell(signal("ever", "e", `1`), workflow.Consumed)
		},
	},
	{
		name: "lease",
		rule: "a lease takes what was claimed so long ago by an owner that has not beaten for so long, and nothing " +
			"else",
		check: func(p *probe, s AgingStore) {
			b, beats := any(s).(lock.Beater)
			beat := func() {
				if beats {
					_, err := b.Beat(p.ctx, "a")
					ok(err)
				}
			}
			n := owned("silent")
			n.Owner = "silent"
			p.start(n)
			p.age(s, time.Minute)
			f := p.begins("r")
			p.wantClaimed(lease("b", 30*time.Second), "silent")
			for range 3 {
				p.age(s, 20*time.Second)
				beat()
			}
			p.wantNone(lease("c", 65*time.Second), from("c", "silent"))
			if !beats {
				return
			}
			p.wantClaimed(lease("c", 50*time.Second), "silent")
			p.write(entry("r", f, workflow.Stay, done("s")))
			p.age(s, 51*time.Second)
			p.wantClaimed(lease("d", 50*time.Second), "r", "silent")
		},
	},
	{
		name: "limit-refill",
		rule: "as time passes, as many runs may begin as Limit.PerSecond says, and no more after a long time",
		check: func(p *probe, s AgingStore) {
			for i := range 9 {
				p.start(starting(fmt.Sprint("r", i)))
			}
			l := workflow.Limit{PerSecond: slowly}
			p.inTurn(limited("a", l), "r0")
			p.age(s, 50*time.Minute)
			p.heldBack(limited("a", l))
			p.age(s, 11*time.Minute)
			p.inTurn(limited("b", l), "r1")
			p.heldBack(limited("a", l))
			p.age(s, 7*day)
			p.inTurn(limited("a", l), "r2")
			p.heldBack(limited("b", l))
			l.PerSecond = 20
			p.age(s, time.Second)
			p.inTurn(limited("a", l), "r3", "r4", "r5")
		},
	},
	{
		name: "living",
		rule: "a process counts as living for LivingFor after it has noted its definitions",
		check: func(p *probe, s AgingStore) {
			version := func(id string, want int) {
				n := starting(id)
				n.Version = 0
				p.start(n)
				if got := p.run(id).Version; got != want {
					fail("a start without a version has %d, want %d", got, want)
				}
			}
			p.note("a", workflow.Definition{Workflow: flow, Version: 2})
			p.age(s, workflow.LivingFor-time.Minute)
			p.note("b", workflow.Definition{Workflow: flow, Version: 1})
			version("first", 2)
			p.age(s, 2*time.Minute)
			version("second", 1)
			p.age(s, workflow.LivingFor)
			version("third", 2)
		},
	},
	{
		name: "retention",
		rule: "Sweep deletes a run with its journal and mailbox when its days have passed since its end, and frees " +
			"its key",
		check: func(p *probe, s AgingStore) {
			for i, id := range []string{"one", "two", "three"} {
				n := owned(id)
				n.RetentionDays, n.Key = i+1, "key of "+id
				p.start(n)
			}
			p.age(s, 10*day) // the days are counted from the end
			for _, id := range []string{"one", "two", "three"} {
				p.tell(signal(id, "e", `1`), workflow.Kept)
				p.write(entry(id, owned(id).Fence, workflow.Stay, done("s")))
			}
			failed := entry("one", owned("one").Fence, workflow.End)
			failed.Status = workflow.Failed
			p.write(failed, entry("two", owned("two").Fence, workflow.End))
			p.act("three", workflow.Cancel)
			p.age(s, day-minute)
			p.unchanged("a Sweep", func() { p.wantSwept(0, 0) })
			for i, id := range []string{"one", "two", "three"} {
				p.age(s, 2*minute)
				p.wantSwept(0, 1)
				p.wantRuns(workflow.Query{ID: id})
				if journal, mail := p.steps(id); len(journal)+len(mail) > 0 {
					fail("a run that was swept has steps")
				}
				if left := len(p.runs(workflow.Query{})); left != 2-i {
					fail("%d runs are left, want %d", left, 2-i)
				}
				want(p.verdict(entry(id, owned(id).Fence, workflow.Stay)), workflow.ErrNotFound)
				p.tell(signal(id, "e", `1`), workflow.Unknown)
				p.age(s, day-2*minute)
			}
			n := starting("one")
			n.Key = "key of one"
			p.start(n)
			p.wantSteps("one")
		},
	},
	{
		name: "retention-running",
		rule: "Sweep deletes no run that is not over, however old it is and however it is held",
		check: func(p *probe, s AgingStore) {
			p.start(owned("owned"), owned("waits"), owned("held"), starting("paused"), starting("due"))
			p.write(waiting("waits", owned("waits").Fence, "e"), entry("held", owned("held").Fence, workflow.Stop))
			p.act("paused", workflow.Pause)
			p.age(s, 400*day)
			p.wantSwept(0, 0)
			p.wantSwept(1, 0)
			if left := p.runs(workflow.Query{Status: workflow.Running}); len(left) != 5 {
				fail("%d of 5 runs are left", len(left))
			}
			p.write(entry("owned", owned("owned").Fence, workflow.Stay, done("s")))
			p.tell(signal("waits", "e", `1`), workflow.Consumed)
		},
	},
	{
		name: "retention-limit",
		rule: "a Sweep deletes at most limit runs, and all with limit 0; several at once delete each run once",
		check: func(p *probe, s AgingStore) {
			var runs []workflow.NewRun
			var ends []workflow.Entry
			for i := range 1400 { // more than one statement of a store may take
				n := owned(fmt.Sprint("r", i))
				n.RetentionDays = 1
				runs = append(runs, n)
				ends = append(ends, entry(n.ID, n.Fence, workflow.End, done("s")))
			}
			p.start(append(runs, starting("due"))...)
			p.write(ends...)
			p.age(s, 2*day)
			p.wantSwept(1, 1)
			p.wantSwept(1119, 1119)
			deleted, errs := make([]int, 4), make([]error, 4)
			var acts []func()
			for i := range deleted {
				acts = append(acts, func() {
					for range 100 {
						n, err := s.Sweep(p.ctx, 7)
						deleted[i] += n
						if errs[i] = err; err != nil || n == 0 {
							return
						}
					}
				})
			}
			suite.Together(acts...)
			ok(errors.Join(errs...))
			rest, err := s.Sweep(p.ctx, 0) // a sweeper may pass over what another deletes
			ok(err)
			if sum := deleted[0] + deleted[1] + deleted[2] + deleted[3] + rest; sum != 280 {
				fail("sweepers delete %v and %d of the last 280 runs", deleted, rest)
			}
			p.wantRuns(workflow.Query{}, "due")
		},
	},
	{
		name: "unknown",
		rule: "Sweep holds a run as unknown that has been due for a day if for a day no living process had its " +
			"definition",
		check: func(p *probe, s AgingStore) {
			n := starting("due")
			n.Version = 7
			p.note("a", workflow.Definition{Workflow: flow, Version: 7})
			p.age(s, 2*time.Hour)
			p.note("b", workflow.Definition{Workflow: flow, Version: 1})
			p.start(n)
			p.age(s, day-time.Hour)
			p.unchanged("a Sweep", func() { p.wantSwept(0, 0) }) // it is not due for a day
			p.age(s, 2*time.Hour)
			p.wantSwept(0, 0)
			r := p.run("due")
			if r.Hold != workflow.HoldUnknown || r.Error != workflow.UnknownError(flow, 7) ||
				r.Status != workflow.Running || !r.Completed.IsZero() || r.Owner != "" {
				fail("a run that no process has known for a day is %s", text(r))
			}
			p.tell(signal("due", "e", `1`), workflow.Kept)
			p.wantSwept(0, 0)
			q := plain("c")
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 7}}
			c := p.claimed("due", q)
			if r := p.run("due"); r.Hold != "" || r.Error != "" || c.Mail != 1 {
				fail("a run that is known again is %s", text(r))
			}
		},
	},
	{
		name: "unknown-not",
		rule: "Sweep does not hold a run that is owned, is held, waits, is due later, or whose definition was known " +
			"within a day",
		check: func(p *probe, s AgingStore) {
			p.note("a", definition...)
			p.start(owned("owned"), owned("waits"), owned("held"), starting("due"))
			n := starting("later")
			n.Version, n.Delay = 2, 10*day
			o := owned("theirs")
			o.Version = 2
			w := owned("ever")
			w.Version = 2
			p.start(n, o, w)
			p.write(waiting("ever", w.Fence, "e"), waiting("waits", owned("waits").Fence, "e"),
				entry("held", owned("held").Fence, workflow.Stop))
			p.age(s, day-time.Hour)
			p.note("a", definition...)
			p.age(s, day-time.Hour)
			p.note("a") // it stops, and has known them until now
			p.unchanged("a Sweep", func() { p.wantSwept(0, 0) })
			p.age(s, 2*time.Hour)
			p.unchanged("a Sweep", func() { p.wantSwept(0, 0) })
			p.age(s, day)
			p.wantSwept(0, 0)
			for id, hold := range map[string]workflow.Hold{
				"owned": "", "waits": "", "held": workflow.Drifted, "due": workflow.HoldUnknown, "later": "",
				"theirs": "", "ever": "",
			} {
				if r := p.run(id); r.Hold != hold {
					fail("the run %s is held as %q, want %q", id, r.Hold, hold)
				}
			}
			p.act("due", workflow.Resume)
			if r := p.run("due"); r.Hold != "" || r.Error != "" || r.Due.IsZero() {
				fail("a run that is resumed is %s", text(r))
			}
		},
	},
}
