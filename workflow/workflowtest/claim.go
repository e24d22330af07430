package workflowtest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

var claimClauses = []clause{
	{
		name: "claim",
		rule: "Claim makes a process the owner of a run that is due, and no second Claim gets it",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("r"))
			p.tell(signal("r", "e", `1`), workflow.Kept)
			c := p.claimed("r", plain("a"))
			if c.Mail != 1 || c.Workflow != flow || c.Version != 1 || !same(c.Input, starting("r").Input) {
				fail("the run that is claimed is %s, with %d signals", text(c.Run), c.Mail)
			}
			recent("Now", c.Now)
			if r := p.run("r"); r.Owner != "a" || !r.Due.IsZero() || !r.Started.Equal(c.Started) {
				fail("the run that is claimed is %s", text(r))
			}
			for _, process := range []string{"a", "b"} {
				p.wantNext(plain(process), 0)
			}
			p.write(entry("r", c.Fence, workflow.Stay, done("s")))
		},
	},
	{
		name: "claim-definitions",
		rule: "Claim gets runs of the named definitions only, however long others are due",
		check: func(p *probe, _ workflow.Store) {
			for i, d := range []workflow.Definition{
				{Workflow: "unknown", Version: 1},
				{Workflow: flow, Version: 2},
				{Workflow: "flow2", Version: 1},
				{Workflow: "other", Version: 3},
				{Workflow: flow, Version: 1},
				{Workflow: "other", Version: 1},
			} {
				n := starting(fmt.Sprint("r", i))
				n.Workflow, n.Version = d.Workflow, d.Version
				p.start(n)
			}
			q := many("a")
			q.Definitions = nil
			p.wantClaimed(q)
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 1}, {Workflow: "other", Version: 3}}
			p.wantClaimed(q, "r3", "r4")
			q.Definitions = append(q.Definitions, q.Definitions...)
			p.wantClaimed(q)
		},
	},
	{
		name: "claim-order",
		rule: "Claim gets the runs that are due longest, at most Limit",
		check: func(p *probe, _ workflow.Store) {
			q := plain("a")
			for i, id := range []string{"m", "z", "a", "k", "b", "y"} {
				n := starting(id)
				if i%2 == 0 {
					n.Workflow = "other"
				}
				p.start(n)
			}
			q.Definitions = append(q.Definitions, workflow.Definition{Workflow: "other", Version: 1})
			q.Limit = 0
			p.wantClaimed(q)
			q.Limit = 1
			p.wantClaimed(q, "m")
			q.Limit = 3
			p.wantClaimed(q, "z", "a", "k")
			q.Limit = 2
			p.wantClaimed(q, "b", "y")
		},
	},
	{
		name: "claim-order-due",
		rule: "the order of claims is that of when the runs are due, not of when they were started",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("first"), starting("second"))
			p.write(later("first", p.claimed2("first", "second"), time.Nanosecond))
			p.start(starting("third"))
			for _, id := range []string{"second", "first", "third"} {
				p.claimed(id, plain("a"))
			}
		},
	},
	{
		name: "claim-next",
		rule: "Claim says how long it is until the next run of these definitions is due, if it gets less than Limit",
		check: func(p *probe, _ workflow.Store) {
			p.wantNext(plain("a"), 0)
			for id, delay := range map[string]time.Duration{"near": minute, "far": 4 * minute} {
				n := starting(id)
				n.Delay = delay
				p.start(n)
			}
			other := starting("other")
			other.Workflow, other.Delay = "other", time.Second
			held, over, waits := p.begun("held", "b"), p.begun("over", "b"), p.begun("waits", "b")
			p.start(other, owned("owned"))
			p.write(entry("held", held.Fence, workflow.Stop), entry("over", over.Fence, workflow.End),
				waiting("waits", waits.Fence, "e"))
			p.wantNext(plain("a"), minute)

			p.start(starting("due"), starting("due too"))
			q := plain("a")
			q.Limit = 3
			if all, next := p.claim(q); len(all) != 2 || next > minute || next < minute/2 {
				fail("Claim gets %q, and the next is due in %v, want two and %v", names(all), next, minute)
			}
			p.act("near", workflow.Cancel)
			p.wantNext(plain("a"), 4*minute)
			p.act("far", workflow.Pause)
			p.wantNext(plain("a"), 0)
		},
	},
	{
		name: "claim-fence",
		rule: "each claim of a run fences off the owners before, also if a nonce comes again",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("r"))
			q := plain("a")
			var before []lock.Fence
			for i := range 4 {
				f := p.claimed("r", q).Fence
				for _, old := range before {
					if old.Epoch >= f.Epoch {
						fail("a claim after %v has %v", old, f)
					}
					for next := workflow.Stay; next <= workflow.Stop; next++ {
						want(p.verdict(entry("r", old, next, done("late"))), lock.ErrFenced)
					}
				}
				before = append(before, f)
				p.write(entry("r", f, workflow.Stay, done(fmt.Sprint("s", i))))
				p.write(later("r", f, time.Nanosecond))
			}
			p.wantSteps("r", "s0 done", "s1 done", "s2 done", "s3 done")
		},
	},
	{
		name: "claim-wait",
		rule: "a claim forgets what the run waits for: a signal is kept, and the owner finds it",
		check: func(p *probe, _ workflow.Store) {
			e := waiting("r", p.begins("r"), "e")
			e.After = time.Nanosecond
			p.write(e)
			c := p.claimed("r", plain("b"))
			if r := p.run("r"); r.Event != "" {
				fail("a run that is claimed waits for %q", r.Event)
			}
			p.tell(signal("r", "e", `1`), workflow.Kept)
			e = waiting("r", c.Fence, "e")
			e.Mail = c.Mail
			want(p.verdict(e), workflow.ErrMail)
		},
	},
	{
		name: "claim-held",
		rule: "a run that is paused, crashed or drifted is claimed in no way until it is resumed",
		check: func(p *probe, _ workflow.Store) {
			for _, held := range []workflow.Hold{workflow.Crashed, workflow.Drifted} {
				e := entry(string(held), p.begins(string(held)), workflow.Stop)
				e.Held = held
				p.write(e)
			}
			p.start(starting("paused"))
			p.act("paused", workflow.Pause)
			all := []string{"paused", "crashed", "drifted"}
			p.wantNone(plain("b"), from("b", "a"), lease("b", 1), again("a", owned(all[1]).Fence.Nonce))
			for _, id := range all {
				if hold := p.run(id).Hold; string(hold) != id {
					fail("the run %s is held as %q", id, hold)
				}
				p.act(id, workflow.Resume)
				if r := p.run(id); r.Hold != "" || r.Error != "" || r.Due.IsZero() {
					fail("a run that is resumed is %s", text(r))
				}
			}
			p.wantClaimed(many("b"), all...)
		},
	},
	{
		name: "claim-over",
		rule: "a run that is over is claimed in no way",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.write(entry("r", f, workflow.End))
			p.start(starting("cancelled"))
			p.act("cancelled", workflow.Cancel)
			p.wantNone(plain("b"), from("b", "a"), from("b", "b"), lease("b", 1), again("a", f.Nonce))
		},
	},
}

// later returns an entry that parks a run for a time.
func later(id string, f lock.Fence, after time.Duration) workflow.Entry {
	e := entry(id, f, workflow.Park)
	e.After = after
	return e
}

// claimed2 claims two runs and gives the second back at once as due. It returns the fence of the first.
func (p *probe) claimed2(first, second string) lock.Fence {
	one := p.claimed(first, plain("a"))
	two := p.claimed(second, plain("a"))
	p.write(later(second, two.Fence, time.Nanosecond))
	return one.Fence
}

// wantNone checks that no request gets a run.
func (p *probe) wantNone(requests ...workflow.ClaimRequest) {
	for _, q := range requests {
		if all, _ := p.claim(q); len(all) > 0 {
			fail("a claim %+v gets %q", q, names(all))
		}
	}
}
