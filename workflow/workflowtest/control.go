package workflowtest

import (
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

var controlClauses = []clause{
	{
		name: "cancel",
		rule: "Cancel ends a run at once, however it stands, and a second one changes nothing",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("owned")
			p.write(waiting("waits", p.begins("waits"), "e"), entry("held", p.begins("held"), workflow.Stop))
			sleep := later("sleeps", p.begins("sleeps"), minute)
			p.write(sleep)
			p.start(starting("due"), starting("paused"))
			p.act("paused", workflow.Pause)
			for _, id := range []string{"owned", "waits", "held", "sleeps", "due", "paused"} {
				p.act(id, workflow.Cancel)
				r := p.run(id)
				if r.Status != workflow.Cancelled || r.Owner != "" || r.Event != "" || r.Hold != "" || r.Error != "" ||
					!r.Due.IsZero() || r.Output != nil || r.Completed.Before(r.Started) {
					fail("a run that %s and is cancelled is %s", id, text(r))
				}
				recent("Completed", r.Completed)
				p.unchanged("a message to a cancelled run", func() {
					for _, a := range []workflow.Action{workflow.Cancel, workflow.Pause, workflow.Resume} {
						p.tell(workflow.Message{Run: id, Action: a}, workflow.Over)
					}
				})
			}
			want(p.verdict(entry("owned", f, workflow.End)), workflow.ErrOver)
			p.wantNext(plain("b"), 0)
		},
	},
	{
		name: "pause",
		rule: "Pause fences the owner off, forgets the wait and holds the run until Resume makes it due",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("owned")
			e := waiting("waits", p.begins("waits"), "e")
			e.After = minute
			p.write(e)
			drifted := entry("drifted", p.begins("drifted"), workflow.Stop)
			p.write(drifted)
			n := starting("later")
			n.Delay = minute
			p.start(n)
			for _, id := range []string{"owned", "waits", "later", "drifted"} {
				for range 2 {
					p.act(id, workflow.Pause)
					r := p.run(id)
					if r.Hold != workflow.Paused || r.Status != workflow.Running || r.Owner != "" || r.Event != "" ||
						r.Error != "" || !r.Due.IsZero() || !r.Completed.IsZero() {
						fail("a run that is paused is %s", text(r))
					}
				}
			}
			p.wantNext(plain("b"), 0)
			want(p.verdict(entry("owned", f, workflow.Stay, done("late"))), fenced)
			for _, id := range []string{"owned", "waits", "later", "drifted"} {
				p.act(id, workflow.Resume)
				if r := p.run(id); r.Hold != "" || time.Until(r.Due) > minute/2 {
					fail("a run that is resumed is %s", text(r))
				}
				p.claimed(id, plain("b"))
			}
			want(p.verdict(entry("owned", f, workflow.Stay, done("late"))), fenced)
			p.wantSteps("owned")
		},
	},
	{
		name: "resume",
		rule: "Resume changes nothing of a run that is not held",
		check: func(p *probe, _ workflow.Store) {
			p.begins("owned")
			e := waiting("waits", p.begins("waits"), "e")
			e.After = minute
			p.write(e)
			n := starting("later")
			n.Delay = minute
			p.start(n)
			p.unchanged("a Resume", func() {
				for _, id := range []string{"owned", "waits", "later"} {
					p.act(id, workflow.Resume)
				}
			})
			p.write(entry("owned", owned("owned").Fence, workflow.Stay, done("s")))
		},
	},
}
