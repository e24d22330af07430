package workflowtest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

var nextClauses = []clause{
	{
		name: "park",
		rule: "a run that is parked has no owner, and is due at Due or After the write, whichever comes first",
		check: func(p *probe, _ workflow.Store) {
			far := time.Now().Add(3 * minute).UTC().Truncate(time.Microsecond)
			for i, c := range []struct {
				due   time.Time
				after time.Duration
				least time.Duration
			}{
				{time.Time{}, minute, minute},
				{far, 0, 3 * minute},
				{far, minute, minute},
				{far, 5 * minute, 3 * minute},
			} {
				n := owned(fmt.Sprint("r", i))
				p.start(n)
				e := later(n.ID, n.Fence, c.after)
				if e.Due = c.due; i%2 == 1 {
					e.Due = c.due.In(time.FixedZone("east", 7200))
				}
				p.write(e)
				r := p.run(n.ID)
				if r.Owner != "" || r.Status != workflow.Running || r.Hold != "" || r.Event != "" {
					fail("a run that is parked is %s", text(r))
				}
				in := time.Until(r.Due)
				if in > c.least+minute/2 || in < c.least-minute/2 || r.Due.Location() != time.UTC {
					fail("parked until %v, and for %v: it is due at %v", c.due, c.after, r.Due)
				}
				if c.after == 0 && !r.Due.Equal(c.due) {
					fail("parked until %v: it is due at %v", c.due, r.Due)
				}
			}
			p.wantNext(plain("a"), minute)
		},
	},
	{
		name: "park-now",
		rule: "a run that is parked until a time that has passed, or for a nanosecond, is due",
		check: func(p *probe, _ workflow.Store) {
			for i, e := range []workflow.Entry{
				{After: 1}, {Due: time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)}, {Due: time.Unix(1, 0), After: minute},
			} {
				n := owned(fmt.Sprint("r", i))
				p.start(n)
				e.Run, e.Fence, e.Next, e.Mail = n.ID, n.Fence, workflow.Park, -1
				p.write(e)
				if p.run(n.ID).Due.IsZero() {
					fail("a run that is due has no Due")
				}
				p.claimed(n.ID, plain("b"))
			}
		},
	},
	{
		name: "park-wait",
		rule: "a run that is parked without a time waits for a signal alone",
		check: func(p *probe, _ workflow.Store) {
			e := waiting("r", p.begins("r"), "e")
			p.write(e)
			if r := p.run("r"); r.Event != "e" || !r.Due.IsZero() || r.Owner != "" {
				fail("a run that waits is %s", text(r))
			}
			p.wantNext(plain("a"), 0)
			p.wantNone(lease("b", 1), from("b", "a"), from("b", "p"))
			p.tell(signal("r", "e", `1`), workflow.Consumed)
			p.claimed("r", plain("b"))
		},
	},
	{
		name: "park-deadline",
		rule: "a run that waits with a timeout says for what and until when, and a new wait leaves nothing of the last",
		check: func(p *probe, _ workflow.Store) {
			e := waiting("r", p.begins("r"), "first")
			e.Match, e.Due = json.RawMessage(`{"a":1}`), time.Unix(1, 0)
			p.write(e)
			c := p.claimed("r", plain("b"))
			e = waiting("r", c.Fence, "second")
			e.After = minute
			p.write(e)
			if r := p.run("r"); r.Event != "second" || time.Until(r.Due) < minute/2 {
				fail("a run that waits is %s", text(r))
			}
			p.tell(signal("r", "first", `{"a":1}`), workflow.Kept)
			p.wantNext(plain("b"), minute)
			p.tell(signal("r", "second", `{"a":2}`), workflow.Consumed)
		},
	},
	{
		name: "end",
		rule: "a run that has ended has its status, output and error, and the time; it has no owner and is not due",
		check: func(p *probe, _ workflow.Store) {
			for _, c := range []struct {
				status        workflow.Status
				output, keeps string
				err           string
			}{
				{workflow.Completed, `{"a":1}`, `{"a":1}`, ""},
				{workflow.Completed, ``, `null`, ""},
				{workflow.Completed, `null`, `null`, ""},
				{workflow.Failed, ``, ``, "it has failed"},
				{workflow.Failed, `false`, `false`, "it has failed"},
				{workflow.Cancelled, ``, ``, ""},
			} {
				id := workflow.NewID()
				e := entry(id, p.begins(id), workflow.End, done("last"))
				e.Status, e.Output, e.Error = c.status, document(c.output), c.err
				p.write(e)
				r := p.run(id)
				switch {
				case r.Status != c.status || r.Error != c.err || !same(r.Output, document(c.keeps)):
					fail("a run that ended %s with %q is %s", c.status, c.output, text(r))
				case r.Owner != "" || !r.Due.IsZero() || r.Hold != "" || r.Event != "":
					fail("a run that has ended is %s", text(r))
				case r.Completed.Before(r.Started):
					fail("a run from %v has ended at %v", r.Started, r.Completed)
				}
				recent("Completed", r.Completed)
				p.wantSteps(id, "last done")
			}
		},
	},
	{
		name: "stop",
		rule: "a run that is stopped is held and says why; after Resume it is due, and says so no more",
		check: func(p *probe, _ workflow.Store) {
			for _, held := range []workflow.Hold{workflow.Drifted, workflow.Crashed} {
				id := string(held)
				e := entry(id, p.begins(id), workflow.Stop, done("s"))
				e.Held, e.Error = held, "why it is "+id
				p.write(e)
				r := p.run(id)
				if r.Hold != held || r.Error != e.Error || r.Status != workflow.Running || r.Owner != "" ||
					!r.Due.IsZero() || !r.Completed.IsZero() {
					fail("a run that is stopped is %s", text(r))
				}
				p.wantSteps(id, "s done")
				p.act(id, workflow.Resume)
				if r = p.run(id); r.Hold != "" || r.Error != "" || r.Due.IsZero() {
					fail("a run that is resumed is %s", text(r))
				}
			}
			p.wantClaimed(many("b"), string(workflow.Drifted), string(workflow.Crashed))
		},
	},
	{
		name: "record",
		rule: "Record adds late rows where there are none, without a fence, also to a run that is over",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			open := workflow.Step{Name: "open", Kind: workflow.KindSleep, Outcome: workflow.Open, For: minute}
			tried := done("tried")
			tried.Outcome = workflow.Retrying
			p.write(entry("r", f, workflow.Stay, done("s"), open, tried))
			late := func(names ...string) {
				e := workflow.Entry{Run: "r", Next: workflow.Record}
				for _, name := range names {
					st := done(name)
					st.Output = json.RawMessage(`"late"`)
					e.Steps = append(e.Steps, st)
				}
				p.write(e)
			}
			late("s", "open", "tried", "first")
			p.wantSteps("r", "s done", "open open", "tried retrying", "first late")
			if got := p.step("r", "first"); !same(got.Output, json.RawMessage(`"late"`)) {
				fail("a late row has the output %s", got.Output)
			}
			p.unchanged("a late row for a second time", func() { late("first", "s") })
			p.write(entry("r", f, workflow.Stay, done("t")))
			p.act("r", workflow.Cancel)
			late("after", "t")
			p.wantSteps("r", "s done", "open open", "tried retrying", "first late", "t done", "after late")
			if r := p.run("r"); r.Status != workflow.Cancelled {
				fail("after a late row the run is %s", text(r))
			}
		},
	},
	{
		name: "record-counts-not",
		rule: "a late row is no outcome: the owner's row replaces it, and it takes no signal",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.act("r", workflow.Pause)
			p.tell(signal("r", "e", `1`), workflow.Kept)
			st := done("s")
			st.Kind, st.Signal, st.Output = workflow.KindWait, "of e", json.RawMessage(`"late"`)
			p.write(workflow.Entry{Run: "r", Next: workflow.Record, Steps: []workflow.Step{st}})
			p.wantMail("r", "of e")
			want(p.verdict(entry("r", f, workflow.Stay, done("s"))), fenced)
			p.act("r", workflow.Resume)
			c := p.claimed("r", plain("b"))
			if c.Mail != 1 {
				fail("a run has %d signals, want 1", c.Mail)
			}
			st.Output = json.RawMessage(`"in time"`)
			p.write(entry("r", c.Fence, workflow.Stay, st))
			p.wantSteps("r", "s done")
			p.wantMail("r")
			if got := p.step("r", "s"); !same(got.Output, st.Output) {
				fail("the outcome is %s, want %s", got.Output, st.Output)
			}
			p.write(workflow.Entry{Run: "r", Next: workflow.Record, Steps: []workflow.Step{done("s")}})
			p.wantSteps("r", "s done")
		},
	},
}

// document returns a document; nil for none.
func document(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}
