package workflowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// pages is more than a store reads at once.
const pages = 250

var readClauses = []clause{
	{
		name: "runs-order",
		rule: "Runs yields runs by start, newest first, and of one time by id, greatest first in byte order",
		check: func(p *probe, _ workflow.Store) {
			for _, id := range []string{"m", "z", "a", "Z", "é", "10"} {
				p.start(starting(id))
			}
			p.wantRuns(workflow.Query{}, "10", "é", "Z", "a", "z", "m")
			var batch []workflow.NewRun
			for _, id := range []string{"x", "B", "ü", "9", "_", "b"} {
				batch = append(batch, starting(id))
			}
			p.start(batch...)
			wantOrder(p.runs(workflow.Query{}), 12)
		},
	},
	{
		name: "runs-pages",
		rule: "After and Limit make pages, on which each run is once, also while others are started",
		check: func(p *probe, _ workflow.Store) {
			var batch []workflow.NewRun
			for i := range pages {
				batch = append(batch, starting(fmt.Sprintf("r%d", i*7919%pages)))
			}
			p.start(batch...)
			wantOrder(p.runs(workflow.Query{}), pages)
			var got []workflow.Run
			for q := (workflow.Query{Limit: 30, Workflow: flow}); len(got) < pages; {
				page := p.runs(q)
				if len(page) != min(30, pages-len(got)) {
					fail("a page has %d runs after %d", len(page), len(got))
				}
				got = append(got, page...)
				last := got[len(got)-1]
				q.After = &workflow.Run{Started: last.Started, ID: last.ID}
				p.start(starting(fmt.Sprint("new", len(got))))
			}
			wantOrder(got, pages)
			if last := p.runs(workflow.Query{After: &got[pages-1]}); len(last) != 0 {
				fail("after the last run there are %d", len(last))
			}
		},
	},
	{
		name: "runs-query",
		rule: "Runs yields the runs that fit all fields of the query",
		check: func(p *probe, _ workflow.Store) {
			for i, id := range []string{"a", "b", "c", "d"} {
				n := owned(id)
				if n.Input = json.RawMessage(fmt.Sprintf(`{"user":%d,"n":%d}`, i%2, i)); i == 3 {
					n.Workflow = "other"
				}
				p.start(n)
			}
			p.write(entry("a", owned("a").Fence, workflow.End), entry("d", owned("d").Fence, workflow.End))
			p.act("b", workflow.Cancel)
			at := func(id string) time.Time { return p.run(id).Started }
			user := json.RawMessage(`{"user":1.0}`)
			for _, c := range []struct {
				q    workflow.Query
				want string
			}{
				{workflow.Query{}, "d c b a"},
				{workflow.Query{Workflow: flow}, "c b a"},
				{workflow.Query{Workflow: "no"}, ""},
				{workflow.Query{ID: "b"}, "b"},
				{workflow.Query{ID: "b", Workflow: "other"}, ""},
				{workflow.Query{ID: "B"}, ""},
				{workflow.Query{Status: workflow.Running}, "c"},
				{workflow.Query{Status: workflow.Completed}, "d a"},
				{workflow.Query{Status: workflow.Failed}, ""},
				{workflow.Query{Status: workflow.Cancelled}, "b"},
				{workflow.Query{Status: workflow.Completed, Workflow: flow}, "a"},
				{workflow.Query{Since: at("b")}, "d c b"},
				{workflow.Query{Until: at("b")}, "a"},
				{workflow.Query{Since: at("b"), Until: at("d")}, "c b"},
				{workflow.Query{Since: at("d").Add(1000)}, ""},
				{workflow.Query{Since: at("b").In(time.FixedZone("east", 7200)), Limit: 2}, "d c"},
				{workflow.Query{Input: user}, "d b"},
				{workflow.Query{Input: user, Workflow: flow}, "b"},
				{workflow.Query{Input: user, Limit: 1}, "d"},
				{workflow.Query{Input: json.RawMessage(`{}`), Limit: 3}, "d c b"},
				{workflow.Query{Input: json.RawMessage(`null`)}, ""},
				{workflow.Query{Limit: 1}, "d"},
				{workflow.Query{Since: at("a"), Until: at("d"), Status: workflow.Running, Input: json.RawMessage(`{"n":2}`)}, "c"},
			} {
				got := ""
				for _, r := range p.runs(c.q) {
					got += " " + r.ID
				}
				if got != "" && got[1:] != c.want || got == "" && c.want != "" {
					fail("Runs of %+v yields%s, want %s", c.q, got, c.want)
				}
			}
		},
	},
	{
		name: "runs-event",
		rule: "with Event Runs yields the runs that wait for it and whose match the payload has, the longest waiting " +
			"first",
		check: func(p *probe, _ workflow.Store) {
			n := owned("other")
			n.Workflow = "other"
			p.start(n, owned("late"), owned("first"), owned("second"), owned("any"), owned("f"), owned("owned"),
				owned("held"), owned("over"), starting("due"))
			for _, id := range []string{"first", "other", "second", "late", "held", "over"} {
				e := waiting(id, owned(id).Fence, "e")
				if id == "second" || id == "other" {
					e.Match = json.RawMessage(`{"user":42}`)
				}
				p.write(e)
			}
			p.write(waiting("f", owned("f").Fence, "f"), waiting("any", owned("any").Fence, workflow.AnyEvent))
			p.act("held", workflow.Pause)
			p.act("over", workflow.Cancel)
			p.wantRuns(workflow.Query{Event: "e"}, "first", "late")
			fits := workflow.Query{Event: "e", Payload: json.RawMessage(`{"user":42,"n":1}`)}
			p.wantRuns(fits, "first", "other", "second", "late")
			fits.Workflow, fits.Limit = flow, 2
			p.wantRuns(fits, "first", "second")
			fits.Limit, fits.Payload = 0, json.RawMessage(`{"user":"42"}`)
			p.wantRuns(fits, "first", "late")
			p.wantRuns(workflow.Query{Event: "f"}, "f")
			p.wantRuns(workflow.Query{Event: "g"})
			p.tell(signal("first", "e", `1`), workflow.Consumed)
			p.wantRuns(workflow.Query{Event: "e"}, "late")
		},
	},
	{
		name: "runs-keys",
		rule: "with KeyPrefix Runs yields the runs of a workflow whose key begins with it, the greatest key in byte " +
			"order first",
		check: func(p *probe, _ workflow.Store) {
			var batch []workflow.NewRun
			add := func(id, key string) {
				n := owned(id)
				n.Key = key
				batch = append(batch, n)
			}
			for i := range pages {
				add(fmt.Sprint("r", i*7919%pages), fmt.Sprintf("k %03d", i*7919%pages))
			}
			for id, key := range map[string]string{
				"before": "k", "capital": "K 100", "percent": "k%", "after": "k!", "no key": "",
				"é": "\uFFFFé", "e": "\uFFFFe",
				"last": "\uFFFF\U0010FFFF\U0010FFFF", "beyond": "\U00010000", "private": "\uE000", "below": "\uD7FF~",
				"end": "\U0010FFFF~",
			} {
				add(id, key)
			}
			other := owned("other")
			other.Workflow, other.Key = "other", "k 100"
			p.start(append(batch, other)...)
			q := workflow.Query{Workflow: flow, KeyPrefix: "k "}
			got := p.runs(q)
			for i, r := range got {
				if r.Key != fmt.Sprintf("k %03d", pages-1-i) || r.Workflow != flow {
					fail("run %d of %q has key %q", i, q.KeyPrefix, r.Key)
				}
			}
			if len(got) != pages {
				fail("%d runs have the prefix, want %d", len(got), pages)
			}
			q.Limit = 3
			p.wantRuns(q, "r249", "r248", "r247")
			q.KeyPrefix = "k 01"
			p.wantRuns(q, "r19", "r18", "r17")
			p.act("r18", workflow.Cancel)
			q.Status, q.Input = workflow.Running, json.RawMessage(`{"n":1}`)
			p.wantRuns(q, "r19", "r17", "r16")
			q.Until, q.Limit = p.run("r0").Started, 0
			p.wantRuns(q)
			for prefix, ids := range map[string][]string{
				"k 249": {"r249"}, "k 25": nil, "K": {"capital"}, "k%": {"percent"}, "\uFFFF": {"last", "é", "e"},
				"\uFFFF\U0010FFFF": {"last"}, "\uD7FF": {"below"}, "\U00010000": {"beyond"},
				"\U0010FFFF": {"end"},
			} {
				p.wantRuns(workflow.Query{Workflow: flow, KeyPrefix: prefix}, ids...)
			}
		},
	},
	{
		name: "runs-loop",
		rule: "the body of a loop over Runs or Steps may call every method, and may end the loop early",
		check: func(p *probe, _ workflow.Store) {
			var batch []workflow.NewRun
			for i := range pages {
				batch = append(batch, starting(fmt.Sprint("r", i)))
			}
			p.start(batch...)
			seen := 0
			for r, err := range p.store.Runs(p.ctx, workflow.Query{Workflow: flow}) {
				ok(err)
				if seen++; seen%25 == 1 {
					p.start(starting("beside " + r.ID))
					c, _ := p.claim(plain("a"))
					p.write(entry(c[0].ID, c[0].Fence, workflow.Stay, done("s"), done("t")))
					p.tell(signal(r.ID, "e", `1`), workflow.Kept)
					for _, err := range p.store.Steps(p.ctx, c[0].ID) {
						ok(err)
						p.run(c[0].ID)
						p.counts()
						break
					}
				}
			}
			if seen != pages {
				fail("the loop has seen %d runs, want %d", seen, pages)
			}
			for range 20 {
				for _, err := range p.store.Runs(p.ctx, workflow.Query{}) {
					ok(err)
					break
				}
			}
			_, err := p.store.Sweep(p.ctx, 0)
			ok(err)
		},
	},
	{
		name: "runs-twice",
		rule: "what Runs and Steps return may be ranged over again, and yields what is there by then",
		check: func(p *probe, _ workflow.Store) {
			runs, steps := p.store.Runs(p.ctx, workflow.Query{}), p.store.Steps(p.ctx, "r0")
			for i := range 3 {
				n, rows := 0, 0
				for _, err := range runs {
					ok(err)
					n++
				}
				for _, err := range steps {
					ok(err)
					rows++
				}
				if n != i || rows != i {
					fail("%d runs and %d rows, want %d", n, rows, i)
				}
				p.begins(fmt.Sprint("r", i))
				p.write(entry("r0", owned("r0").Fence, workflow.Stay, done(fmt.Sprint("s", i))))
			}
		},
	},
	{
		name: "steps-order",
		rule: "Steps yields the journal by Started, Index and Name in byte order, and a run that is not there has none",
		check: func(p *probe, _ workflow.Store) {
			if journal, mail := p.steps("unknown"); len(journal)+len(mail) > 0 {
				fail("a run that is not there has steps")
			}
			f := p.begins("r")
			row := func(name string, index int, took time.Duration) workflow.Step {
				st := done(name)
				st.Index, st.Took = index, took
				return st
			}
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.write(entry("r", f, workflow.Stay, row("z", 1, 0), row("y", 1, 0), row("a", 2, 0), row("Z", 1, 0),
				row("m", 0, 0), row("b/c", 3, time.Hour), row("b-c", 3, time.Hour)))
			p.write(entry("r", f, workflow.Stay, row("k", 0, 0)))
			journal, _ := p.steps("r")
			var got []string
			for _, st := range journal {
				got = append(got, st.Name)
			}
			if want := []string{"b-c", "b/c", "m", "Z", "y", "z", "a", "k"}; !slices.Equal(got, want) {
				fail("the journal is %q, want %q", got, want)
			}
		},
	},
	{
		name: "steps-many",
		rule: "Steps yields each row of a long journal and each signal of a full mailbox once",
		check: func(p *probe, _ workflow.Store) {
			e := entry("r", p.begins("r"), workflow.Stay)
			var mail []workflow.Message
			for i := range 4 * pages {
				st := done(fmt.Sprint("s", i*7919%(4*pages)))
				st.Index = i
				e.Steps = append(e.Steps, st)
				m := signal("r", fmt.Sprint("e", i), `1`)
				mail = append(mail, m)
			}
			p.write(e)
			_, err := p.store.Send(p.ctx, mail)
			ok(err)
			journal, signals := p.steps("r")
			seen := make(map[string]bool)
			for i, st := range journal {
				if seen[st.Name] = true; st.Index != i {
					fail("row %d has index %d", i, st.Index)
				}
			}
			for _, s := range signals {
				seen[s.Signal] = true
			}
			if len(seen) != 8*pages || len(journal)+len(signals) != len(seen) {
				fail("%d rows and %d signals, of which %d differ, want %d of both",
					len(journal), len(signals), len(seen), 4*pages)
			}
		},
	},
	{
		name: "counts",
		rule: "Counts says how many runs of each workflow have each status, or each of some statuses",
		check: func(p *probe, _ workflow.Store) {
			wantCounts := func(want map[string]map[workflow.Status]int, of ...workflow.Status) {
				if got := p.counts(of...); !maps.EqualFunc(got, want, maps.Equal[map[workflow.Status]int]) {
					fail("Counts returns %v, want %v", got, want)
				}
			}
			wantCounts(nil)
			other := starting("other")
			other.Workflow, other.Version = "other", 3
			failed := entry("failed", owned("failed").Fence, workflow.End)
			failed.Status = workflow.Failed
			p.start(other, owned("failed"), owned("done"), owned("done too"), owned("running"), starting("due"),
				starting("cancelled"), starting("held"))
			p.write(failed, entry("done", owned("done").Fence, workflow.End),
				entry("done too", owned("done too").Fence, workflow.End))
			p.act("cancelled", workflow.Cancel)
			p.act("held", workflow.Pause)
			wantCounts(map[string]map[workflow.Status]int{
				"other": {workflow.Running: 1},
				flow:    {workflow.Running: 3, workflow.Completed: 2, workflow.Failed: 1, workflow.Cancelled: 1},
			})
			wantCounts(map[string]map[workflow.Status]int{
				"other": {workflow.Running: 1}, flow: {workflow.Running: 3},
			}, workflow.Running)
			wantCounts(map[string]map[workflow.Status]int{
				flow: {workflow.Completed: 2, workflow.Failed: 1},
			}, workflow.Completed, workflow.Failed)
			if _, err := p.store.Counts(p.ctx, workflow.Running, "gone"); !errors.Is(err, workflow.ErrInvalid) {
				fail("Counts of a status that there is not is %v, want workflow.ErrInvalid", err)
			}
		},
	},
	{
		name: "sweep-nothing",
		rule: "Sweep deletes no run that runs, nor one whose retention has not passed",
		check: func(p *probe, _ workflow.Store) {
			n := owned("over")
			n.RetentionDays = 1
			p.start(n, owned("owned"), starting("due"))
			p.write(entry("over", n.Fence, workflow.End, done("s")))
			p.unchanged("a Sweep", func() {
				for _, limit := range []int{0, 1, 100} {
					if deleted, err := p.store.Sweep(p.ctx, limit); deleted != 0 || err != nil {
						fail("a Sweep deletes %d: %v", deleted, err)
					}
				}
			})
		},
	},
}

func (p *probe) counts(of ...workflow.Status) map[string]map[workflow.Status]int {
	counts, err := p.store.Counts(p.ctx, of...)
	ok(err)
	return counts
}

// wantOrder checks that n runs are in the order of the contract, each once, by what they say of themselves.
func wantOrder(all []workflow.Run, n int) {
	if len(all) != n {
		fail("%d runs, want %d", len(all), n)
	}
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.Started.Before(b.Started) || a.Started.Equal(b.Started) && a.ID <= b.ID {
			fail("%q of %v comes after %q of %v", b.ID, b.Started, a.ID, a.Started)
		}
	}
}
