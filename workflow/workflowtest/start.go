package workflowtest

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// minute is longer than a check takes.
const minute = 10 * time.Minute

var startClauses = []clause{
	{
		name: "start",
		rule: "a run that is started is there as it was started, and due at once",
		check: func(p *probe, _ workflow.Store) {
			n := starting("r")
			n.Key, n.RetentionDays, n.Version = "key", 7, 3
			p.start(n)
			r := p.run("r")
			switch {
			case r.Workflow != flow || r.Version != 3 || r.Status != workflow.Running || r.Hold != "":
				fail("the run is %s", text(r))
			case !same(r.Input, n.Input) || r.Output != nil || r.Error != "" || r.Key != "key" || r.RetentionDays != 7:
				fail("the run is %s", text(r))
			case !r.Completed.IsZero() || !r.Due.Equal(r.Started) || r.Owner != "" || r.Event != "":
				fail("the run is %s", text(r))
			}
			recent("Started", r.Started)
			q := plain("a")
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 3}}
			if c := p.claimed("r", q); !same(c.Input, n.Input) || c.Key != "key" || c.RetentionDays != 7 {
				fail("the run that is claimed is %s", text(c.Run))
			}
		},
	},
	{
		name: "start-owned",
		rule: "a run that is started with an owner is the owner's, under the fence of the start, and is not due",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			if r := p.run("r"); r.Owner != "a" || !r.Due.IsZero() || r.Status != workflow.Running {
				fail("the run is %s", text(r))
			}
			p.wantClaimed(plain("b"))
			p.write(entry("r", f, workflow.Stay, done("s")))
			f.Nonce = "another"
			want(p.verdict(entry("r", f, workflow.End)), lock.ErrFenced)
			p.wantClaimed(from("b", "a"), "r")
		},
	},
	{
		name: "start-again",
		rule: "a start with the same ids adds nothing, and tells of the runs as they are",
		check: func(p *probe, _ workflow.Store) {
			n := starting("r")
			n.Version, n.Key = 0, "key"
			p.start(n, starting("other"))
			p.unchanged("a second start", func() {
				for range 2 {
					if s := p.known(n); s.ID != "r" || s.Version != 1 || s.Status != workflow.Running {
						fail("a second start tells of %+v", s)
					}
				}
			})
			p.act("r", workflow.Cancel)
			p.unchanged("a start of what is over", func() {
				if s := p.known(n); s.ID != "r" || s.Status != workflow.Cancelled {
					fail("a start of what is cancelled tells of %+v", s)
				}
			})
		},
	},
	{
		name: "start-key",
		rule: "a start with a known key returns the run that has it, whatever its status, and adds nothing",
		check: func(p *probe, _ workflow.Store) {
			first := owned("r")
			first.Key = "key"
			p.start(first)
			second := starting("second")
			second.Key, second.Version = "key", 5
			for _, status := range []workflow.Status{workflow.Running, workflow.Completed} {
				p.unchanged("a start with a known key", func() {
					if s := p.known(second); s.ID != "r" || s.Status != status || s.Version != 1 {
						fail("a start with a known key tells of %+v", s)
					}
				})
				p.write(entry("r", first.Fence, workflow.End))
			}
			p.wantRuns(workflow.Query{ID: "second"})
		},
	},
	{
		name: "start-key-scope",
		rule: "a key is of one workflow, is compared byte by byte, and \"\" is none",
		check: func(p *probe, _ workflow.Store) {
			for i, key := range []string{"key", "Key", "key ", "ke", "%", "", ""} {
				for _, name := range []string{flow, "other"} {
					n := starting(fmt.Sprint(name, i))
					n.Key, n.Workflow, n.Input = key, name, json.RawMessage(fmt.Sprint(i))
					p.start(n)
				}
			}
		},
	},
	{
		name: "start-reused",
		rule: "a start whose id or key is known with another input is ErrKeyReused and adds nothing",
		check: func(p *probe, _ workflow.Store) {
			n := starting("r")
			n.Key, n.Input = "key", json.RawMessage(`{"a":[1,2],"b":2}`)
			p.start(n)
			equal := n
			equal.Input = json.RawMessage(` { "b" : 2.0, "a" : [1e0,2] } `)
			p.known(equal)
			equal.ID = "second"
			p.known(equal)
			for _, input := range []string{`{"a":[2,1],"b":2}`, `{"a":[1,2]}`, `{"a":[1,2],"b":"2"}`, `null`, `[]`} {
				for _, id := range []string{"r", "third"} {
					other := n
					other.ID, other.Input = id, json.RawMessage(input)
					p.unchanged("a refused start", func() {
						_, err := p.store.Start(p.ctx, []workflow.NewRun{starting("before"), other, starting("after")})
						want(err, workflow.ErrKeyReused)
					})
				}
			}
			n.Workflow = "other"
			_, err := p.store.Start(p.ctx, []workflow.NewRun{n})
			want(err, workflow.ErrKeyReused)
		},
	},
	{
		name: "start-several",
		rule: "Start adds all runs that are not known, and tells of each in its place",
		check: func(p *probe, _ workflow.Store) {
			keyed := starting("keyed")
			keyed.Key = "key"
			p.start(keyed, starting("known"))
			keyed.ID = "unused"
			started, err := p.store.Start(p.ctx, []workflow.NewRun{
				starting("new"), starting("known"), owned("mine"), keyed, starting("last"),
			})
			ok(err)
			got := ""
			for _, s := range started {
				got += fmt.Sprintf("%s %t %d; ", s.ID, s.New, s.Version)
			}
			if got != "new true 1; known false 1; mine true 1; keyed false 1; last true 1; " {
				fail("Start tells of %s", got)
			}
			p.wantClaimed(many("b"), "new", "known", "keyed", "last")
			none, err := p.store.Start(p.ctx, nil)
			if ok(err); len(none) != 0 {
				fail("a start of nothing tells of %+v", none)
			}
		},
	},
	{
		name: "start-many",
		rule: "Start adds many runs at once",
		check: func(p *probe, _ workflow.Store) {
			var all []workflow.NewRun
			for i := range 300 {
				all = append(all, starting(fmt.Sprintf("r%03d", i)))
			}
			p.start(all...)
			if got := p.runs(workflow.Query{}); len(got) != len(all) {
				fail("%d runs are there, want %d", len(got), len(all))
			}
		},
	},
	{
		name: "start-version",
		rule: "a start without a version has the greatest that a living process has, " +
			"else the greatest that is kept, else 1",
		check: func(p *probe, _ workflow.Store) {
			n := 0
			version := func(version, want int) {
				n++
				r := starting(fmt.Sprint("r", n))
				r.Version = version
				started, err := p.store.Start(p.ctx, []workflow.NewRun{r})
				ok(err)
				if got := p.run(r.ID).Version; got != want || started[0].Version != want {
					fail("a start with version %d: %+v, and the run has %d, want %d", version, started[0], got, want)
				}
			}
			other := starting("other")
			other.Workflow, other.Version = "other", 9
			p.start(other)
			version(0, 1)
			version(4, 4)
			version(2, 2)
			version(0, 4)
			p.note("a", workflow.Definition{Workflow: flow, Version: 2},
				workflow.Definition{Workflow: "other", Version: 8})
			p.note("b", workflow.Definition{Workflow: flow, Version: 3})
			version(0, 3)
			version(5, 5)
			p.note("b")
			version(0, 2)
			p.note("a")
			version(0, 5)
		},
	},
	{
		name: "start-delay",
		rule: "a run with a Delay is due so long after its start, and is not claimed before",
		check: func(p *probe, _ workflow.Store) {
			n := starting("r")
			n.Delay = minute
			p.start(n)
			if r := p.run("r"); r.Due.Sub(r.Started) != minute {
				fail("a run of %v with a delay of %v is due at %v", r.Started, minute, r.Due)
			}
			p.wantNext(plain("a"), minute)
		},
	},
	{
		name: "start-retention",
		rule: "a run is kept for 30 days if the start does not say, and no longer than the cap",
		check: func(p *probe, _ workflow.Store) {
			for i, c := range []struct{ days, least, most int }{
				{0, workflow.DefaultRetentionDays, workflow.DefaultRetentionDays},
				{1, 1, 1},
				{40, 40, 40},
				{math.MaxInt, 40, 100_000},
			} {
				n := starting(fmt.Sprint("r", i))
				n.RetentionDays = c.days
				p.start(n)
				if got := p.run(n.ID).RetentionDays; got < c.least || got > c.most {
					fail("a run that asks for %d days is kept for %d", c.days, got)
				}
			}
		},
	},
}

// many asks for all runs that are due.
func many(process string) workflow.ClaimRequest {
	q := plain(process)
	q.Limit = 1000
	return q
}

// note notes what definitions a living process has. The claim gets nothing.
func (p *probe) note(process string, definitions ...workflow.Definition) {
	q := lease(process, workflow.MaxDelay)
	q.Definitions = definitions
	if all, _ := p.claim(q); len(all) > 0 {
		fail("a lease of %v gets %q", q.Lease, names(all))
	}
}

// wantNext checks that nothing is due, and when the next run is. d is as of a short time ago.
func (p *probe) wantNext(q workflow.ClaimRequest, d time.Duration) {
	all, next := p.claim(q)
	if len(all) > 0 || next > d || d > 0 && next < d-minute/2 {
		fail("Claim gets %q, and the next is due in %v, want nothing and %v", names(all), next, d)
	}
}
