package workflowtest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// nexts are the ways to go on that need the fence.
var nexts = []workflow.Next{workflow.Stay, workflow.Park, workflow.End, workflow.Stop}

var writeClauses = []clause{
	{
		name: "write",
		rule: "a row that the owner writes is in the journal as it was written, and the owner keeps the run",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.write(entry("r", f, workflow.Stay)) // nothing
			step := workflow.Step{
				Name: "branch/s", Index: 7, Kind: workflow.KindStep, Outcome: workflow.Broken, Output: []byte(`{"a":1}`),
				Error: "it is broken", Attempts: 3, Took: 3 * time.Second,
			}
			p.write(entry("r", f, workflow.Stay, step))
			got := p.step("r", "branch/s")
			switch {
			case got.Index != 7 || got.Kind != step.Kind || got.Outcome != step.Outcome:
				fail("the row is %+v", got)
			case !same(got.Output, step.Output):
				fail("the row is %+v", got)
			case got.Error != step.Error || got.Attempts != 3 || got.Signal != "" || !got.Until.IsZero():
				fail("the row is %+v", got)
			case got.Completed.Sub(got.Started) != step.Took || got.Took != 0 || got.For != 0:
				fail("the row is %+v, and the step took %v", got, step.Took)
			}
			recent("Completed", got.Completed)
			if r := p.run("r"); r.Owner != "a" || r.Status != workflow.Running {
				fail("the run is %s", text(r))
			}
			p.write(entry("r", f, workflow.Stay, done("t")))
		},
	},
	{
		name: "write-times",
		rule: "the store stamps the times of a row, whatever its writer says",
		check: func(p *probe, _ workflow.Store) {
			st := done("s")
			st.Started = time.Date(1999, 1, 2, 3, 4, 5, 6, time.UTC)
			st.Completed = st.Started.Add(time.Hour)
			p.write(entry("r", p.begins("r"), workflow.Stay, st))
			got := p.step("r", "s")
			recent("Started", got.Started)
			recent("Completed", got.Completed)
			if !got.Started.Equal(got.Completed) {
				fail("a step that took no time is from %v to %v", got.Started, got.Completed)
			}
		},
	},
	{
		name: "write-fenced",
		rule: "an entry with another fence than the owner's is ErrFenced, and changes nothing",
		check: func(p *probe, _ workflow.Store) {
			p.begun("r", "a")
			f := p.claimed("r", from("b", "a")).Fence
			p.unchanged("an entry that is fenced off", func() {
				for _, next := range nexts {
					for _, other := range []lock.Fence{
						{Epoch: f.Epoch, Nonce: "forged"},
						{Epoch: f.Epoch - 1, Nonce: f.Nonce},
						{Epoch: f.Epoch + 1, Nonce: f.Nonce},
						{Epoch: 99, Nonce: "forged"},
					} {
						want(p.verdict(entry("r", other, next, done("late"))), lock.ErrFenced)
					}
				}
			})
			p.write(entry("r", f, workflow.Stay, done("s")))
		},
	},
	{
		name: "write-given-back",
		rule: "who has given a run back adds nothing more to its journal: ErrFenced",
		check: func(p *probe, _ workflow.Store) {
			for _, next := range []workflow.Next{workflow.Park, workflow.Stop} {
				id := fmt.Sprint("r", next)
				f := p.begins(id)
				p.write(entry(id, f, next))
				want(p.verdict(entry(id, f, workflow.Stay, done("late"))), lock.ErrFenced)
				p.wantSteps(id)
			}
		},
	},
	{
		name: "write-over",
		rule: "an entry of a run that is over is ErrOver, and changes nothing",
		check: func(p *probe, _ workflow.Store) {
			for _, status := range []workflow.Status{workflow.Completed, workflow.Failed, workflow.Cancelled} {
				id := string(status)
				f := p.begins(id)
				e := entry(id, f, workflow.End)
				if e.Status = status; status == workflow.Cancelled {
					p.act(id, workflow.Cancel)
				} else {
					p.write(e)
				}
				p.unchanged("an entry of what is over", func() {
					for _, next := range nexts {
						e := entry(id, lock.Fence{Epoch: 99, Nonce: "forged"}, next, done("late"))
						want(p.verdict(e), workflow.ErrOver)
						if e.Fence = f; next == workflow.Stay || status == workflow.Cancelled {
							want(p.verdict(e), workflow.ErrOver)
						}
					}
				})
			}
		},
	},
	{
		name: "write-unknown",
		rule: "an entry of a run that is not there is ErrNotFound",
		check: func(p *probe, _ workflow.Store) {
			for _, next := range append(nexts, workflow.Record) {
				want(p.verdict(entry("unknown", owned("r").Fence, next, done("s"))), workflow.ErrNotFound)
			}
			p.wantRuns(workflow.Query{})
		},
	},
	{
		name: "write-mail",
		rule: "an entry with another number of signals than the run has got is ErrMail, and changes nothing",
		check: func(p *probe, _ workflow.Store) {
			for _, next := range nexts {
				id := fmt.Sprint("r", next)
				f := p.begins(id)
				for n := range int64(3) {
					for _, mail := range []int64{n - 1, n + 1, n + 100} {
						e := entry(id, f, next, done("late"))
						if e.Mail = mail; mail < 0 {
							continue
						}
						p.unchanged("an entry that has not seen all mail", func() {
							want(p.verdict(e), workflow.ErrMail)
						})
					}
					p.tell(signal(id, fmt.Sprint("e", n), `1`), workflow.Kept)
				}
				e := entry(id, f, next, done("s"))
				e.Mail = 3
				p.write(e)
			}
		},
	},
	{
		name: "write-group",
		rule: "entries do not depend on each other: each has its verdict, and a refused one stops no other",
		check: func(p *probe, _ workflow.Store) {
			var all []workflow.Entry
			for _, id := range []string{"z", "fenced", "m", "over", "unknown", "mail", "a"} {
				n := owned(id)
				n.Owner = "owner of " + id
				if id != "unknown" {
					p.start(n)
				}
				all = append(all, entry(id, n.Fence, workflow.Stay, done("s"), done("t")))
			}
			p.claimed("fenced", from("b", "owner of fenced"))
			p.act("over", workflow.Cancel)
			p.tell(signal("mail", "e", `1`), workflow.Kept)
			all[5].Mail = 0
			all[6].Next, all[6].Status = workflow.End, workflow.Completed
			verdicts := p.verdicts(all...)
			for i, target := range []error{
				nil, lock.ErrFenced, nil, workflow.ErrOver, workflow.ErrNotFound, workflow.ErrMail, nil,
			} {
				if want(verdicts[i], target); target != nil {
					p.wantSteps(all[i].Run)
				} else {
					p.wantSteps(all[i].Run, "s done", "t done")
				}
			}
			if p.run("a").Status != workflow.Completed {
				fail("the last entry of a group is not written")
			}
			if none := p.verdicts(); len(none) != 0 {
				fail("a group of nothing has verdicts %v", none)
			}
		},
	},
	{
		name: "write-many",
		rule: "Write takes many entries at once, and entries with many rows",
		check: func(p *probe, _ workflow.Store) {
			var runs []workflow.NewRun
			var all []workflow.Entry
			for i := range 200 {
				n := owned(fmt.Sprintf("r%03d", i))
				runs = append(runs, n)
				all = append(all, entry(n.ID, n.Fence, workflow.Park, done("s")))
			}
			for i := range 300 {
				all[7].Steps = append(all[7].Steps, done(fmt.Sprint("s", i)))
			}
			p.start(runs...)
			p.write(all...)
			p.wantSteps("r199", "s done")
			if journal, _ := p.steps("r007"); len(journal) != 301 {
				fail("the journal has %d rows, want 301", len(journal))
			}
		},
	},
	{
		name: "write-again",
		rule: "an entry that was written is no error again, and changes nothing, until the run has gone on",
		check: func(p *probe, _ workflow.Store) {
			for _, next := range nexts {
				id := fmt.Sprint("r", next)
				f := p.begins(id)
				p.tell(signal(id, "e", `1`), workflow.Kept)
				e := entry(id, f, next, done("s"), workflow.Step{
					Name: "open", Kind: workflow.KindWait, Outcome: workflow.Open, For: minute,
				})
				e.Mail = 1
				if e.Event, e.After = "", 0; next == workflow.Park {
					e.Event, e.After = "e", minute
				}
				p.write(e)
				p.unchanged("an entry that is written again", func() {
					for range 3 {
						p.write(e)
					}
				})
				if next == workflow.Stay {
					continue
				}
				receipt := workflow.Kept
				if next == workflow.End {
					receipt = workflow.Over
				}
				p.tell(signal(id, "f", `1`), receipt)
				p.write(e)
			}
			p.act("r1", workflow.Pause)
			want(p.verdict(entry("r1", owned("r1").Fence, workflow.Park)), lock.ErrFenced)
			p.act("r1", workflow.Resume)
			p.claimed("r1", plain("b"))
			want(p.verdict(entry("r1", owned("r1").Fence, workflow.Park)), lock.ErrFenced)
		},
	},
	{
		name: "write-stays",
		rule: "a row of a step that is over stays: the entry is no error, and its other rows are added",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			first := entry("r", f, workflow.Stay, done("s"))
			p.write(first)
			second := done("s")
			second.Output = []byte(`2`)
			p.write(entry("r", f, workflow.Stay, second, done("t")))
			if got := p.step("r", "s"); !same(got.Output, first.Steps[0].Output) {
				fail("the outcome of a step was %s, and is %s", first.Steps[0].Output, got.Output)
			}
			p.write(first)
		},
	},
}
