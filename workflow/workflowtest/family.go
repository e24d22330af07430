package workflowtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/workflow"
)

// childOf returns a run that can be started by another one.
func childOf(parent, id string) workflow.NewRun {
	n := starting(id)
	n.Parent = parent
	return n
}

// ownedChild returns a child that begins owned.
func ownedChild(parent, id string) workflow.NewRun {
	n := owned(id)
	n.Parent = parent
	return n
}

// statuses checks how runs stand.
func (p *probe) statuses(s workflow.Status, ids ...string) {
	for _, id := range ids {
		if r := p.run(id); r.Status != s {
			fail("the run %q is %s, want %s: %s", id, r.Status, s, text(r))
		}
	}
}

var familyClauses = []clause{
	{
		name: "child",
		rule: "a run keeps its Parent, and a query by Parent selects its children in the order of all runs",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("p"), starting("q"))
			n := childOf("p", "newest")
			n.Version, n.Key = 0, "key"
			for _, n := range []workflow.NewRun{
				childOf("p", "x"), childOf("p", "b"), childOf("q", "other"), childOf("x", "deep"), n,
			} {
				p.start(n)
			}
			p.start(ownedChild("p", "owned"))
			p.act("b", workflow.Cancel)
			if r := p.run("newest"); r.Parent != "p" || r.Key != "key" || p.run("p").Parent != "" {
				fail("a child is %s", text(r))
			}
			b := p.run("b")
			for _, c := range []struct {
				q    workflow.Query
				want []string
			}{
				{workflow.Query{}, []string{"owned", "newest", "b", "x"}},
				{workflow.Query{Limit: 2}, []string{"owned", "newest"}},
				{workflow.Query{After: &b}, []string{"x"}},
				{workflow.Query{Since: b.Started}, []string{"owned", "newest", "b"}},
				{workflow.Query{Status: workflow.Cancelled}, []string{"b"}},
				{workflow.Query{Workflow: "other"}, nil},
				{workflow.Query{Workflow: flow, Status: workflow.Running, Limit: 2}, []string{"owned", "newest"}},
				{workflow.Query{ID: "x"}, []string{"x"}},
				{workflow.Query{ID: "other"}, nil},
			} {
				c.q.Parent = "p"
				p.wantRuns(c.q, c.want...)
			}
			p.wantRuns(workflow.Query{Parent: "nobody"})
			for {
				all, _ := p.claim(many("b"))
				if len(all) == 0 {
					break
				}
				for _, c := range all {
					want := map[string]string{"x": "p", "newest": "p", "other": "q", "deep": "x"}[c.ID]
					if c.Parent != want {
						fail("a claim gets %q with the parent %q, want %q", c.ID, c.Parent, want)
					}
				}
			}
		},
	},
	{
		name: "child-pages",
		rule: "a query by Parent yields all children, however many there are",
		check: func(p *probe, _ workflow.Store) {
			p.start(starting("p"))
			var batch []workflow.NewRun
			for i := range pages {
				batch = append(batch, childOf("p", fmt.Sprintf("r%d", i*7919%pages)))
			}
			p.start(batch...)
			wantOrder(p.runs(workflow.Query{Parent: "p"}), pages)
		},
	},
	{
		name: "child-refused",
		rule: "a start whose parent is over is ErrOver, and ErrNotFound if there is none: then no run is added. If " +
			"its run is known, the parent does not matter",
		check: func(p *probe, s workflow.Store) {
			p.start(owned("completed"), owned("failed"), owned("cancelled"))
			for _, status := range []workflow.Status{workflow.Completed, workflow.Failed, workflow.Cancelled} {
				parent, n := string(status), childOf(string(status), "child of "+string(status))
				n.Key = n.ID
				p.start(n)
				if status == workflow.Cancelled {
					p.act(parent, workflow.Cancel)
				} else {
					e := entry(parent, owned(parent).Fence, workflow.End)
					e.Status = status
					p.write(e)
				}
				p.known(n)
				n.ID = "another id"
				p.known(n)
				p.refusesChild(s, parent, workflow.ErrOver)
			}
			p.refusesChild(s, "nobody", workflow.ErrNotFound)
			p.start(starting("held"))
			p.act("held", workflow.Pause)
			p.start(childOf("held", "of a held run"))
		},
	},
	{
		name: "cancel-family",
		rule: "Cancel ends the descendants of its run too, however they stand, and leaves those that are over",
		check: func(p *probe, _ workflow.Store) {
			p.start(owned("p"), owned("beside"))
			p.start(ownedChild("p", "owned"), childOf("p", "due"), ownedChild("p", "waits"), ownedChild("p", "over"),
				childOf("p", "paused"), childOf("beside", "another's"))
			p.start(ownedChild("owned", "deep"), childOf("paused", "deep-due"))
			p.start(childOf("deep", "deeper"))
			p.write(waiting("waits", owned("waits").Fence, "e"), entry("over", owned("over").Fence, workflow.End))
			p.act("paused", workflow.Pause)
			over := text(p.run("over"))
			p.act("p", workflow.Cancel)
			family := []string{"p", "owned", "due", "waits", "paused", "deep", "deep-due", "deeper"}
			for _, id := range family {
				r := p.run(id)
				if r.Status != workflow.Cancelled || r.Owner != "" || r.Event != "" || r.Hold != "" || !r.Due.IsZero() {
					fail("after the cancellation of the run, %q is %s", id, text(r))
				}
				recent("Completed", r.Completed)
			}
			if after := text(p.run("over")); after != over {
				fail("a child that was over was %s, and is %s", over, after)
			}
			p.statuses(workflow.Running, "beside", "another's")
			want(p.verdict(entry("deep", owned("deep").Fence, workflow.Stay, done("s"))), workflow.ErrOver)
			p.wantClaimed(many("b"), "another's")
			p.unchanged("another cancellation", func() {
				for _, id := range family {
					p.tell(workflow.Message{Run: id, Action: workflow.Cancel}, workflow.Over)
				}
			})
		},
	},
	{
		name: "cancel-not-family",
		rule: "the end, a pause and a resumption of a run leave its children, and so does a cancellation of a run " +
			"that was over",
		check: func(p *probe, _ workflow.Store) {
			p.start(owned("p"), owned("q"))
			p.start(childOf("p", "child"), childOf("q", "other"))
			p.act("q", workflow.Pause)
			p.act("q", workflow.Resume)
			p.write(entry("p", owned("p").Fence, workflow.End))
			p.tell(workflow.Message{Run: "p", Action: workflow.Cancel}, workflow.Over)
			p.act("other", workflow.Cancel)
			p.statuses(workflow.Running, "child", "q")
			if r := p.run("child"); r.Hold != "" {
				fail("the child is %s", text(r))
			}
		},
	},
	{
		name: "race-family",
		rule: "of starts of descendants and the cancellation of a run, each start is refused, or its run is cancelled",
		check: func(p *probe, s workflow.Store) {
			for i := range races {
				root := fmt.Sprint("r", i)
				p.start(starting(root))
				p.start(childOf(root, root+".c"))
				var stop call
				calls, acts := []*call{&stop}, []func(){
					p.sends(&stop, workflow.Message{Run: root, Action: workflow.Cancel}),
				}
				ids := []string{root + ".c"}
				for n, parent := range []string{root, root + ".c", root + ".c", root} {
					id := fmt.Sprintf("%s.%d", root, n)
					c := new(call)
					ids, calls = append(ids, id), append(calls, c)
					acts = append(acts, func() {
						_, c.err = s.Start(p.ctx, []workflow.NewRun{childOf(parent, id)})
						if errors.Is(c.err, workflow.ErrOver) {
							c.err = nil
						}
					})
				}
				together(calls, acts...)
				for _, id := range ids {
					for _, r := range p.runs(workflow.Query{ID: id}) {
						if r.Status != workflow.Cancelled {
							fail("the run %q goes on, and %q is cancelled: %s", id, root, text(r))
						}
					}
				}
			}
		},
	},
	{
		name: "race-family-groups",
		rule: "a cancellation of a family and groups of entries of its runs do not wait for each other in a circle",
		check: func(p *probe, s workflow.Store) {
			for i := range races {
				root := fmt.Sprint("r", i)
				p.start(owned(root))
				var runs []workflow.NewRun
				for n := range 6 {
					runs = append(runs, ownedChild(root, fmt.Sprintf("%s.%d", root, n)))
				}
				p.start(runs...)
				group := []workflow.Entry{entry(root, owned(root).Fence, workflow.Stay, done("s"))}
				for _, n := range runs {
					group = append(group, entry(n.ID, n.Fence, workflow.Stay, done("s")))
				}
				slices.Reverse(group)
				var stop, write call
				together([]*call{&stop, &write}, p.sends(&stop, workflow.Message{Run: root, Action: workflow.Cancel}),
					func() { _, write.err = s.Write(p.ctx, group) })
				p.statuses(workflow.Cancelled, root, runs[5].ID)
			}
		},
	},
}

// refusesChild checks that no child of a parent is started, alone and with others.
func (p *probe) refusesChild(s workflow.Store, parent string, why error) {
	p.unchanged("a start whose parent is "+parent, func() {
		for _, version := range []int{0, 1} {
			n := childOf(parent, "refused")
			n.Version = version
			for _, all := range [][]workflow.NewRun{{n}, {starting("before"), n, starting("zzz")}} {
				_, err := s.Start(p.ctx, all)
				want(err, why)
			}
		}
	})
}

var openFamilyClauses = []clauseOn[OpeningStore]{
	{
		name: "open-cancel-begun",
		rule: "a cancellation waits for the start of a child that has begun, and cancels the child",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			p.meets(s, Begun, true, &c, p.sends(&c, workflow.Message{Run: "r", Action: workflow.Cancel}))
			p.statuses(workflow.Cancelled, "r", "begun")
		},
	},
	{
		name: "open-cancel-begun-deep",
		rule: "a cancellation waits for the start of a child of a child that has begun, and cancels that one too",
		check: func(p *probe, s OpeningStore) {
			p.start(starting("root"))
			p.start(ownedChild("root", "r"))
			var c call
			p.meets(s, Begun, true, &c, p.sends(&c, workflow.Message{Run: "root", Action: workflow.Cancel}))
			p.statuses(workflow.Cancelled, "root", "r", "begun")
		},
	},
	{
		name: "open-child-over",
		rule: "the start of a child waits for the end of its parent that has begun, and is ErrOver then",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			var refused error
			p.meets(s, Ended, true, &c, func() {
				_, refused = s.Start(p.ctx, []workflow.NewRun{childOf("r", "child")})
			})
			want(refused, workflow.ErrOver)
			p.wantRuns(workflow.Query{Parent: "r"})
		},
	},
}
