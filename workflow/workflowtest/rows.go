package workflowtest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// fenced is the verdict for who is not the owner any more.
var fenced error = lock.ErrFenced

var rowClauses = []clause{
	{
		name: "rows-nulls",
		rule: "null, false, \"\", 0, [] and {} are outputs like any other, and no output is none",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			outputs := []string{`null`, `false`, `""`, `0`, `[]`, `{}`, ``}
			var steps []workflow.Step
			for i, output := range outputs {
				st := done(fmt.Sprint("s", i))
				st.Output = document(output)
				steps = append(steps, st)
			}
			p.write(entry("r", f, workflow.Stay, steps...))
			for i, output := range outputs {
				got := p.step("r", fmt.Sprint("s", i))
				if !same(got.Output, document(output)) || got.Outcome != workflow.Done {
					fail("a step that returned %q is %s with %q", output, got.Outcome, got.Output)
				}
			}
		},
	},
	{
		name: "rows-replaced",
		rule: "a row that is open or retrying is replaced, and keeps its Started, and its Until unless the new row " +
			"has one; any other row stays",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			for _, first := range []workflow.Outcome{
				workflow.Open, workflow.Retrying, workflow.Done, workflow.TimedOut, workflow.Broken,
			} {
				for _, second := range []workflow.Outcome{
					workflow.Open, workflow.Retrying, workflow.Done, workflow.TimedOut, workflow.Broken,
				} {
					st := workflow.Step{
						Name: string(first + "-" + second), Kind: workflow.KindWait, Outcome: first, Attempts: 1,
						Took: time.Second, For: minute,
					}
					p.write(entry("r", f, workflow.Stay, st))
					old := p.step("r", st.Name)
					st.Outcome, st.Attempts, st.Output, st.Error = second, 2, json.RawMessage(`2`), "second"
					st.Took, st.For = time.Minute, 0
					p.write(entry("r", f, workflow.Stay, st))
					got := p.step("r", st.Name)
					if !got.Started.Equal(old.Started) || !got.Until.Equal(old.Until) || got.Kind != workflow.KindWait {
						fail("a row %+v is replaced by %+v", old, got)
					}
					wantReplaced(old, got, second)
				}
			}
		},
	},
	{
		name: "rows-until",
		rule: "For says how long after the write Until is, of a row that replaces another too; without For it is as " +
			"given",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			sleep := workflow.Step{Name: "sleep", Kind: workflow.KindSleep, Outcome: workflow.Open, For: minute}
			wait := workflow.Step{Name: "wait", Kind: workflow.KindWait, Outcome: workflow.Open}
			given := sleep
			given.Name, given.For = "given", 0
			given.Until = time.Now().Add(time.Hour).Truncate(time.Microsecond).In(time.FixedZone("east", 7200))
			p.write(entry("r", f, workflow.Stay, sleep, wait, given))
			if got := p.step("r", "wait"); !got.Until.IsZero() {
				fail("a wait without a timeout is until %v", got.Until)
			}
			if got := p.step("r", "given"); !got.Until.Equal(given.Until) || got.Until.Location() != time.UTC {
				fail("a sleep until %v is until %v", given.Until, got.Until)
			}
			for range 2 {
				got := p.step("r", sleep.Name)
				if got.Until.Sub(got.Completed) != sleep.For || got.Until.Location() != time.UTC {
					fail("a sleep of %v that was written at %v is until %v", sleep.For, got.Completed, got.Until)
				}
				sleep.For, sleep.Outcome, sleep.Attempts = 3*minute, workflow.Retrying, sleep.Attempts+1
				p.write(entry("r", f, workflow.Stay, sleep))
			}
		},
	},
	{
		name: "rows-repeated",
		rule: "a row that is open or retrying stays if it comes again, also late: its deadline does not move",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			open := workflow.Step{Name: "open", Kind: workflow.KindSleep, Outcome: workflow.Open, For: minute}
			first := workflow.Step{
				Name: "tried", Kind: workflow.KindStep, Outcome: workflow.Retrying, For: minute, Attempts: 1,
			}
			second := first
			second.Attempts, second.Error = 2, "second"
			p.write(entry("r", f, workflow.Stay, open, first))
			p.write(entry("r", f, workflow.Stay, second))
			if st := p.step("r", first.Name); st.Attempts != 2 || st.Error != second.Error {
				fail("a second attempt leaves %+v", st)
			}
			p.unchanged("a row that comes again", func() {
				p.write(entry("r", f, workflow.Stay, open, second))
				p.write(entry("r", f, workflow.Stay, first))
			})
		},
	},
	{
		name: "rows-due",
		rule: "a run that is parked until the end of its sleep is due then, whoever parks it, and however often",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			e := entry("r", f, workflow.Stay, workflow.Step{
				Name: "sleep", Kind: workflow.KindSleep, Outcome: workflow.Open, For: minute,
			})
			var first time.Time
			for i := range 4 {
				p.write(e)
				until := p.step("r", "sleep").Until
				if i == 0 {
					first = until
				} else if !until.Equal(first) {
					fail("a sleep until %v is until %v when it goes on", first, until)
				}
				e = entry("r", f, workflow.Park)
				e.Due = until
				p.write(e)
				if due := p.run("r").Due; !due.Equal(until) {
					fail("a sleep until %v is due at %v", until, due)
				}
				p.act("r", workflow.Pause)
				p.act("r", workflow.Resume)
				f = p.claimed("r", plain(fmt.Sprint("p", i))).Fence
				e = entry("r", f, workflow.Stay, workflow.Step{
					Name: "sleep", Kind: workflow.KindSleep, Outcome: workflow.Open,
				})
			}
			if st := p.step("r", "sleep"); st.Until.Sub(st.Started) > minute+minute/2 {
				fail("a sleep of %v from %v is until %v", minute, st.Started, st.Until)
			}
		},
	},
	{
		name: "rows-signal",
		rule: "the row of a wait takes its signal out of the mailbox; the row of another does not",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			for _, event := range []string{"e", "f", "g"} {
				p.tell(signal("r", event, `{"of":"`+event+`"}`), workflow.Kept)
			}
			p.wantMail("r", "of e", "of f", "of g")
			wait := workflow.Step{
				Name: "w", Kind: workflow.KindWait, Outcome: workflow.Done, Signal: "of f", Output: json.RawMessage(`1`),
			}
			p.write(entry("r", f, workflow.Stay, wait, done("s")))
			p.wantMail("r", "of e", "of g")
			if got := p.step("r", "w").Signal; got != "of f" {
				fail("a wait has taken %q", got)
			}
			wait.Signal = "of g" // the row stays as it is
			p.write(entry("r", f, workflow.Stay, wait))
			p.wantMail("r", "of e", "of g")
			other := p.begins("other")
			wait.Signal = "of e"
			p.write(entry("other", other, workflow.Stay, wait))
			p.wantMail("r", "of e", "of g")
			e := entry("r", f, workflow.Stay, wait)
			e.Steps[0].Name, e.Mail = "refused", 0
			want(p.verdict(e), workflow.ErrMail)
			p.wantMail("r", "of e", "of g")
		},
	},
	{
		name: "rows-again",
		rule: "a signal that a wait has taken comes back neither by itself nor with the same id",
		check: func(p *probe, _ workflow.Store) {
			p.write(waiting("r", p.begins("r"), "e"))
			p.tell(signal("r", "e", `1`), workflow.Consumed)
			p.wantMail("r", "of e")
			c := p.claimed("r", plain("b"))
			wait := workflow.Step{Name: "w", Kind: workflow.KindWait, Outcome: workflow.Done, Signal: "of e"}
			p.write(entry("r", c.Fence, workflow.Stay, wait))
			p.wantMail("r")
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.wantMail("r")
			e := waiting("r", c.Fence, "e")
			e.Mail = 1
			p.write(e)
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.wantNext(plain("b"), 0)
		},
	},
	{
		name: "rows-atomic",
		rule: "an entry is written whole or not at all, with the rows that it has",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.tell(signal("r", "e", `1`), workflow.Kept)
			wait := done("w")
			wait.Kind, wait.Signal = workflow.KindWait, "of e"
			for _, next := range nexts {
				e := entry("r", f, next, done("s"), wait, done("t"))
				e.Mail = 0
				p.unchanged("an entry that is refused", func() { want(p.verdict(e), workflow.ErrMail) })
			}
			p.write(entry("r", f, workflow.End, done("s"), wait, done("t")))
			p.wantSteps("r", "s done", "w done", "t done")
			p.wantMail("r")
		},
	},
}

// wantReplaced checks whether a row was replaced by an outcome.
func wantReplaced(old, got workflow.Step, outcome workflow.Outcome) {
	if stays := old.Outcome != workflow.Open && old.Outcome != workflow.Retrying; stays {
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", old) {
			fail("a row %+v is replaced by %+v", old, got)
		}
		return
	}
	if got.Outcome != outcome || got.Attempts != 2 || got.Error != "second" || !same(got.Output, json.RawMessage(`2`)) ||
		got.Completed.Before(old.Completed) {
		fail("a row %+v is not replaced by %s: %+v", old, outcome, got)
	}
}
