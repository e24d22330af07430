package workflowtest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
)

// slowly lets one run begin in a long time.
const slowly = 1.0 / 3600

// limited asks for all runs that are due, within a limit.
func limited(process string, l workflow.Limit) workflow.ClaimRequest {
	q := many(process)
	q.Definitions = []workflow.Definition{{Workflow: flow, Version: 1}, {Workflow: flow, Version: 2}}
	q.Limits = map[string]workflow.Limit{flow: l}
	return q
}

// grouped returns a run of a group.
func grouped(id, group string) workflow.NewRun {
	n := starting(id)
	n.Group = group
	return n
}

// heldBack checks that a claim gets nothing, and is to be repeated soon.
func (p *probe) heldBack(q workflow.ClaimRequest) {
	if all, next := p.claim(q); len(all) > 0 || next <= 0 || next > workflow.HeldBack {
		fail("Claim with %+v gets %q, and the next is due in %v, want nothing and at most %v",
			q.Limits, names(all), next, workflow.HeldBack)
	}
}

// inTurn claims, and checks the order of what the claim gets.
func (p *probe) inTurn(q workflow.ClaimRequest, ids ...string) []workflow.Claimed {
	all, _ := p.claim(q)
	if fmt.Sprint(names(all)) != fmt.Sprint(ids) {
		fail("Claim with %+v gets %q, want %q", q.Limits, names(all), ids)
	}
	return all
}

var limitClauses = []clause{
	{
		name: "limit-runs",
		rule: "no more runs of a workflow have an owner at once than Limit.Runs says, of all processes and versions",
		check: func(p *probe, _ workflow.Store) {
			second := starting("b")
			second.Version = 2
			mine := owned("mine")
			mine.Version = 3
			other := starting("other")
			other.Workflow = "other"
			p.start(mine, other)
			for _, n := range []workflow.NewRun{starting("a"), second, starting("c"), starting("d")} {
				p.start(n)
			}
			most := workflow.Limit{Runs: 3}
			a, b := limited("a", most), limited("b", most)
			b.Definitions = append(b.Definitions, workflow.Definition{Workflow: "other", Version: 1})
			got := p.inTurn(a, "a", "b")
			p.heldBack(a)
			p.wantClaimed(b, "other")
			p.heldBack(b)
			p.write(entry("b", got[1].Fence, workflow.End))
			got = append(got, p.inTurn(b, "c")...)
			p.write(later("a", got[0].Fence, time.Nanosecond))
			p.inTurn(b, "d")
			p.heldBack(a) // what wakes needs a place
			p.act("c", workflow.Cancel)
			p.inTurn(a, "a")
			p.wantNext(b, 0)
		},
	},
	{
		name: "limit-none",
		rule: "a claim with a limit that is not reached gets what is due, and says when the next run is",
		check: func(p *probe, _ workflow.Store) {
			n := grouped("later", "x")
			n.Delay = minute
			p.start(n)
			for i, l := range []workflow.Limit{{}, {Runs: 2, EachGroup: 1, PerSecond: workflow.MaxPerSecond}} {
				a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
				p.wantNext(limited("a", l), minute)
				p.start(grouped(a, "x"), starting(b))
				q := limited("a", l)
				q.Limit = 0
				p.wantClaimed(q)
				q.Limit = 2
				all, next := p.claim(q)
				if len(all) != 2 || next != 0 {
					fail("Claim of 2 with %+v gets %q, and the next is due in %v", l, names(all), next)
				}
				for _, c := range all {
					p.write(later(c.ID, c.Fence, time.Nanosecond))
				}
				all, next = p.claim(limited("a", l))
				if len(all) != 2 || next > minute || next < minute/2 {
					fail("Claim with %+v gets %q, and the next is due in %v, want two and %v",
						l, names(all), next, minute)
				}
				for _, c := range all {
					p.write(entry(c.ID, c.Fence, workflow.End))
				}
			}
		},
	},
	{
		name: "limit-groups",
		rule: "no more runs of a group have an owner at once than Limit.EachGroup says; \"\" is no group",
		check: func(p *probe, _ workflow.Store) {
			mine := owned("mine")
			mine.Group = "z"
			p.start(mine)
			for _, n := range []workflow.NewRun{
				grouped("x1", "x"), grouped("x2", "x"), grouped("y1", "y"), grouped("X1", "X"), grouped("z1", "z"),
				starting("n1"), starting("n2"), grouped("x3", "x"), grouped("long", " x"),
			} {
				p.start(n)
			}
			l := workflow.Limit{EachGroup: 1}
			got := p.inTurn(limited("a", l), "x1", "y1", "X1", "n1", "n2", "long")
			p.heldBack(limited("b", l))
			for id, group := range map[string]string{"x1": "x", "x3": "x", "n1": "", "mine": "z", "long": " x"} {
				if r := p.run(id); r.Group != group {
					fail("a run of the group %q is %s", group, text(r))
				}
			}
			p.write(entry("x1", got[0].Fence, workflow.End))
			two := p.inTurn(limited("b", l), "x2")
			p.heldBack(limited("a", l))
			p.write(later("x2", two[0].Fence, minute))
			p.inTurn(limited("a", l), "x3")
			if r := p.run("x2"); r.Group != "x" {
				fail("a run that was claimed, and parked, is %s", text(r))
			}
			l.EachGroup = 2
			p.inTurn(limited("a", l), "z1")
			l = workflow.Limit{EachGroup: 3, Runs: 100}
			p.start(grouped("y2", "y"))
			p.inTurn(limited("a", l), "y2")
		},
	},
	{
		name: "limit-begins",
		rule: "of the runs that are due, no more begin than Limit.PerSecond says; a run that wakes does not begin",
		check: func(p *probe, _ workflow.Store) {
			for i := range 5 {
				p.start(starting(fmt.Sprint("r", i)))
			}
			l := workflow.Limit{PerSecond: slowly}
			p.act("r0", workflow.Pause)
			p.act("r0", workflow.Resume) // as it has not begun, it is one that begins
			got := p.inTurn(limited("a", l), "r1")
			p.heldBack(limited("a", l))
			p.heldBack(limited("b", l))
			p.write(later("r1", got[0].Fence, time.Nanosecond))
			got = p.inTurn(limited("b", l), "r1")
			p.write(entry("r1", got[0].Fence, workflow.End))
			p.heldBack(limited("b", l))
			p.inTurn(limited("b", workflow.Limit{Runs: 100}), "r2", "r3", "r4", "r0")
		},
	},
	{
		name: "limit-order",
		rule: "of the runs with a limit, and of those without one, the longest due come first, and neither kind " +
			"waits for the other",
		check: func(p *probe, _ workflow.Store) {
			for i := range 6 {
				n, other := starting(fmt.Sprint("r", i)), starting(fmt.Sprint("o", i))
				other.Workflow = "other"
				p.start(n, other)
			}
			q := limited("a", workflow.Limit{Runs: 100, EachGroup: 50})
			q.Definitions, q.Limit = append(q.Definitions, workflow.Definition{Workflow: "other", Version: 1}), 1
			kinds := make(map[string]int)
			for n := range 12 {
				all, _ := p.claim(q)
				if len(all) != 1 {
					fail("Claim gets %q", names(all))
				}
				kind := all[0].ID[:1]
				if want := fmt.Sprint(kind, kinds[kind]); all[0].ID != want {
					fail("Claim gets %q, want %q", all[0].ID, want)
				}
				if kinds[kind]++; n == 3 && len(kinds) != 2 {
					fail("4 claims get %v", kinds)
				}
			}
		},
	},
	{
		name: "limit-backlog",
		rule: "a limit holds back no run but those that it is about, however many wait",
		check: func(p *probe, _ workflow.Store) {
			wakes := p.begunAll("wakes", grouped("wakes", "w"), grouped("plain", ""))
			var backlog []workflow.NewRun
			for i := range 600 {
				backlog = append(backlog, grouped(fmt.Sprint("x", i), "x"))
			}
			p.start(backlog...)
			p.start(grouped("y", "y"), grouped("z", "z"))
			q := limited("a", workflow.Limit{EachGroup: 1})
			q.Limit = 5
			got, _ := p.claim(q)
			if len(got) != 3 { // the first of x, y and z
				fail("beside many runs of one group, Claim gets %q, want one of each group", names(got))
			}
			for _, c := range wakes {
				p.write(later(c.ID, c.Fence, time.Nanosecond))
			}
			q.Limits[flow] = workflow.Limit{PerSecond: slowly}
			q.Nonce = workflow.NewID()
			all, _ := p.claim(q) // which takes the token
			left := map[string]bool{"wakes": true, "plain": true}
			for _, c := range all {
				delete(left, c.ID)
			}
			if len(left) > 0 || len(all) != 3 {
				fail("beside many runs that wait to begin, Claim gets %q, want one that begins and both that wake",
					names(all))
			}
		},
	},
	{
		name: "limit-others",
		rule: "a claim with From, Again or Lease heeds no limit: it changes no number of owners",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("r"), starting("s"))
			l := workflow.Limit{Runs: 1, EachGroup: 1, PerSecond: slowly}
			one, _ := p.claim(limited("a", l))
			if len(one) != 1 {
				fail("Claim with %+v gets %q", l, names(one))
			}
			id, with := one[0].ID, func(q workflow.ClaimRequest) workflow.ClaimRequest {
				q.Limits = map[string]workflow.Limit{flow: l}
				return q
			}
			c := p.claimed(id, with(again("a", one[0].Fence.Nonce)))
			p.heldBack(limited("b", l))
			p.claimed(id, with(from("b", "a")))
			want(p.verdict(entry(id, c.Fence, workflow.Stay)), fenced)
			p.heldBack(limited("b", l))
			p.soon(id, with(lease("c", time.Millisecond)))
			p.heldBack(limited("c", l))
		},
	},
	{
		name: "limit-each",
		rule: "each process claims by the limit that it has, or without one",
		check: func(p *probe, _ workflow.Store) {
			for i := range 6 {
				p.start(starting(fmt.Sprint("r", i)))
			}
			p.inTurn(limited("a", workflow.Limit{Runs: 1}), "r0")
			p.inTurn(limited("b", workflow.Limit{Runs: 3}), "r1", "r2")
			p.heldBack(limited("a", workflow.Limit{Runs: 1}))
			q := plain("c")
			p.claimed("r3", q)
			p.heldBack(limited("b", workflow.Limit{Runs: 3}))
			p.inTurn(limited("b", workflow.Limit{Runs: 5}), "r4")
		},
	},
	{
		name: "race-limit",
		rule: "of many claims at once together no more get than the limit says, and each place is taken again",
		check: func(p *probe, s workflow.Store) {
			l := workflow.Limit{Runs: 4, EachGroup: 2}
			const runs, groups = 60, 3
			var batch []workflow.NewRun
			for i := range runs {
				batch = append(batch, grouped(fmt.Sprint("r", i), fmt.Sprint("g", i%groups)))
			}
			p.start(batch...)
			c := crowded{probe: p, limit: l, groups: make(map[string]int), of: make(map[string]string)}
			for _, n := range batch {
				c.of[n.ID] = n.Group
			}
			errs, acts := make([]error, 8), []func(){}
			for i := range errs {
				acts = append(acts, func() {
					var held []workflow.Claimed
					for round := 0; errs[i] == nil && c.done.Load() < runs && p.ctx.Err() == nil; round++ {
						held, errs[i] = c.turn(s, fmt.Sprint("p", i), round, held)
					}
				})
			}
			suite.Together(acts...)
			ok(errors.Join(errs...))
			if c.done.Load() != runs {
				fail("%d of %d runs are done", c.done.Load(), runs)
			}
		},
	},
	{
		name: "race-begins",
		rule: "of many claims at once together no more begin runs than the limit says",
		check: func(p *probe, _ workflow.Store) {
			for i := range 5 {
				for n := range 10 {
					r := starting(fmt.Sprint("r", i, "-", n))
					r.Workflow = fmt.Sprint("f", i)
					p.start(r)
				}
				calls, acts := make([]*call, 6), make([]func(), 6)
				for c := range calls {
					calls[c] = new(call)
					q := many(fmt.Sprint("p", c))
					q.Definitions = []workflow.Definition{{Workflow: fmt.Sprint("f", i), Version: 1}}
					q.Limits = map[string]workflow.Limit{q.Definitions[0].Workflow: {PerSecond: slowly}}
					acts[c] = p.claims(calls[c], q)
				}
				together(calls, acts...)
				n := 0
				for _, c := range calls {
					n += len(c.claimed)
				}
				if n > 1 {
					fail("6 claims at once begin %d runs, want 1", n)
				}
			}
		},
	},
}

// begunAll starts runs, and claims them all within a limit that is not reached.
func (p *probe) begunAll(process string, runs ...workflow.NewRun) []workflow.Claimed {
	p.start(runs...)
	all, _ := p.claim(limited(process, workflow.Limit{PerSecond: 100}))
	if len(all) != len(runs) {
		fail("Claim gets %q", names(all))
	}
	return all
}

// A crowded counts the runs that processes own at once.
type crowded struct {
	*probe
	limit workflow.Limit
	of    map[string]string // the groups of the runs
	done  atomic.Int64

	mu     sync.Mutex // protects following fields
	runs   int
	groups map[string]int
}

// turn claims, and ends what the turn before has got.
func (c *crowded) turn(
	s workflow.Store, process string, round int, held []workflow.Claimed,
) (all []workflow.Claimed, err error) {
	q := limited(process, c.limit)
	q.Limit = 1 + round%3
	all, _, err = s.Claim(c.ctx, q)
	if err == nil {
		err = c.count(all, 1)
	}
	for i, r := range held {
		if err != nil {
			break
		}
		_ = c.count(held[i:i+1], -1)
		e := entry(r.ID, r.Fence, workflow.End)
		if round%2 == 0 && i == 0 && r.Fence.Epoch < 3 { // it goes on later
			e = later(r.ID, r.Fence, time.Nanosecond)
		}
		verdicts, failed := s.Write(c.ctx, []workflow.Entry{e})
		if err = errors.Join(append(verdicts, failed)...); err == nil && e.Next == workflow.End {
			c.done.Add(1)
		}
	}
	return all, err
}

// count counts runs that are owned from now on, or are given back soon.
func (c *crowded) count(all []workflow.Claimed, by int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range all {
		group := c.of[r.ID]
		c.runs += by
		c.groups[group] += by
		if c.runs > c.limit.Runs || c.groups[group] > c.limit.EachGroup {
			return fmt.Errorf("%d runs have an owner at once, and %d of the group %q: the limit is %+v",
				c.runs, c.groups[group], group, c.limit)
		}
	}
	return nil
}
