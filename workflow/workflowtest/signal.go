package workflowtest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

var signalClauses = []clause{
	{
		name: "signal-kept",
		rule: "a signal that no wait takes lies in the mailbox, and the run is as it was",
		check: func(p *probe, _ workflow.Store) {
			p.begins("owned")
			p.start(starting("due"))
			n := starting("later")
			n.Delay = minute
			p.start(n)
			for _, id := range []string{"owned", "due", "later"} {
				before := p.run(id)
				p.tell(signal(id, "e", `{"a":1}`), workflow.Kept)
				if after := p.run(id); text(before) != text(after) {
					fail("a signal changes %s to %s", text(before), text(after))
				}
				_, mail := p.steps(id)
				if len(mail) != 1 {
					fail("the mailbox has %d signals, want 1", len(mail))
				}
				got := mail[0]
				if got.Name != "e" || got.Signal != "of e" || !same(got.Output, json.RawMessage(`{"a":1}`)) ||
					got.Outcome != workflow.Open {
					fail("the mailbox has %+v", got)
				}
				recent("Started", got.Started)
			}
		},
	},
	{
		name: "signal-consumed",
		rule: "a signal that a run waits for makes it due at once, and the run waits no more",
		check: func(p *probe, _ workflow.Store) {
			for i, after := range []time.Duration{0, minute} {
				id := fmt.Sprint("r", i)
				e := waiting(id, p.begins(id), "e")
				e.After = after
				p.write(e)
				p.tell(signal(id, "e", `1`), workflow.Consumed)
				if r := p.run(id); r.Event != "" || r.Due.IsZero() || time.Until(r.Due) > minute/2 {
					fail("after its signal the run is %s", text(r))
				}
				second := signal(id, "e", `2`)
				second.ID = "second"
				p.tell(second, workflow.Kept)
				p.wantMail(id, "of e", "second")
				if c := p.claimed(id, plain("b")); c.Mail != 2 {
					fail("a run with two signals has %d", c.Mail)
				}
			}
		},
	},
	{
		name: "signal-other",
		rule: "a signal of another event, or that does not match, leaves the wait and its deadline",
		check: func(p *probe, _ workflow.Store) {
			e := waiting("r", p.begins("r"), "e")
			e.After, e.Match = minute, json.RawMessage(`{"user":42,"tags":["a"]}`)
			p.write(e)
			before := p.run("r")
			for i, m := range []workflow.Message{
				signal("r", "f", `{"user":42,"tags":["a"]}`), signal("r", "E", `{"user":42,"tags":["a"]}`),
				signal("r", "e", `{"user":"42","tags":["a"]}`), signal("r", "e", `{"user":42}`), signal("r", "e", `null`),
			} {
				m.ID = fmt.Sprint("s", i)
				p.tell(m, workflow.Kept)
			}
			if after := p.run("r"); text(after) != text(before) {
				fail("signals that fit no wait change %s to %s", text(before), text(after))
			}
			p.wantNext(plain("b"), minute)
			m := signal("r", "e", `{"tags":["b","a"],"more":1,"user":42.0}`)
			p.tell(m, workflow.Consumed)
			if c := p.claimed("r", plain("b")); c.Mail != 6 {
				fail("a run with 6 signals has %d", c.Mail)
			}
		},
	},
	{
		name: "signal-any",
		rule: "a run with several waits is made due by any signal, which is kept for them",
		check: func(p *probe, _ workflow.Store) {
			for i, after := range []time.Duration{0, minute} {
				id := fmt.Sprint("r", i)
				e := waiting(id, p.begins(id), workflow.AnyEvent)
				e.After = after
				p.write(e)
				if r := p.run(id); r.Event != workflow.AnyEvent {
					fail("a run with several waits is %s", text(r))
				}
				p.tell(signal(id, "whatever", `1`), workflow.Kept)
				if r := p.run(id); r.Event != "" || r.Due.IsZero() || time.Until(r.Due) > minute/2 {
					fail("after a signal the run is %s", text(r))
				}
				p.claimed(id, plain("b"))
				p.wantMail(id, "of whatever")
			}
		},
	},
	{
		name: "signal-again",
		rule: "a signal with a known id counts once, whatever else it says, and whatever came between",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			p.begins("other")
			p.tell(signal("r", "e", `1`), workflow.Kept)
			repeat := signal("r", "f", `2`)
			repeat.ID = "of e"
			p.unchanged("a repeated signal", func() { p.tell(repeat, workflow.Kept) })
			repeat.Wanted = true
			p.unchanged("a repeated signal", func() { p.tell(repeat, workflow.Kept) })
			e := waiting("r", f, "f")
			e.Mail = 1
			p.write(e)
			p.unchanged("a repeated signal that fits", func() { p.tell(repeat, workflow.Kept) })
			p.tell(signal("r", "f", `2`), workflow.Consumed)
			p.unchanged("a repeat of what was consumed", func() { p.tell(signal("r", "f", `2`), workflow.Kept) })
			if c := p.claimed("r", plain("b")); c.Mail != 2 {
				fail("a run with two signals has %d", c.Mail)
			}
			p.tell(signal("other", "e", `1`), workflow.Kept)
			p.act("r", workflow.Cancel)
			p.tell(repeat, workflow.Over)
		},
	},
	{
		name: "signal-wanted",
		rule: "a signal that is kept only if it is wanted leaves nothing where no wait takes it",
		check: func(p *probe, _ workflow.Store) {
			f := p.begins("r")
			m := signal("r", "e", `{"a":1}`)
			m.Wanted = true
			p.unchanged("an unwanted signal", func() { p.tell(m, workflow.Unwanted) })
			e := waiting("r", f, "e")
			e.Match, e.Mail = json.RawMessage(`{"a":2}`), 0
			p.write(e)
			p.unchanged("an unwanted signal", func() { p.tell(m, workflow.Unwanted) })
			m.Payload = e.Match
			p.tell(m, workflow.Consumed)
			p.tell(m, workflow.Kept)
			c := p.claimed("r", plain("b"))
			e = waiting("r", c.Fence, workflow.AnyEvent)
			if e.Mail = 1; c.Mail != 1 {
				fail("a run with one signal has %d", c.Mail)
			}
			p.write(e)
			m.ID = "second"
			p.unchanged("an unwanted signal", func() { p.tell(m, workflow.Unwanted) })
			p.act("r", workflow.Cancel)
			p.tell(m, workflow.Over)
		},
	},
	{
		name: "signal-nowhere",
		rule: "a message to a run that is over, or that is not there, changes nothing and says so",
		check: func(p *probe, _ workflow.Store) {
			p.write(entry("over", p.begins("over"), workflow.End))
			p.unchanged("a message to nowhere", func() {
				for _, a := range []workflow.Action{workflow.Signal, workflow.Cancel, workflow.Pause, workflow.Resume} {
					receipts := map[string]workflow.Receipt{"over": workflow.Over, "no": workflow.Unknown}
					for id, receipt := range receipts {
						m := signal(id, "e", `1`)
						m.Action = a
						p.tell(m, receipt)
					}
				}
			})
		},
	},
	{
		name: "signal-held",
		rule: "a signal to a run that is held is kept, also if it waited for it",
		check: func(p *probe, _ workflow.Store) {
			p.write(waiting("r", p.begins("r"), "e"))
			p.act("r", workflow.Pause)
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.wantNext(plain("b"), 0)
			p.act("r", workflow.Resume)
			if c := p.claimed("r", plain("b")); c.Mail != 1 {
				fail("a run with one signal has %d", c.Mail)
			}
			p.wantMail("r", "of e")
		},
	},
	{
		name: "signal-order",
		rule: "the mailbox has the signals in the order in which they came, whatever their ids and events",
		check: func(p *probe, _ workflow.Store) {
			p.begins("r")
			ids := []string{"m", "z", "a", "Z", "é", "10", "9"}
			for i, id := range ids {
				m := signal("r", fmt.Sprint("e", 9-i), `1`)
				m.ID = id
				p.tell(m, workflow.Kept)
			}
			p.wantMail("r", ids...)
		},
	},
	{
		name: "send-many",
		rule: "Send tells of each message in its place, and takes many messages, also to one run",
		check: func(p *probe, _ workflow.Store) {
			p.start(owned("r"), owned("over"), owned("waits"), owned("paused"), owned("cancelled"))
			p.write(waiting("waits", owned("waits").Fence, "e"), entry("over", owned("over").Fence, workflow.End))
			unwanted := signal("r", "wanted", `1`)
			unwanted.Wanted = true
			all := []workflow.Message{
				signal("r", "e", `1`), signal("over", "e", `1`), signal("waits", "e", `1`), signal("unknown", "e", `1`),
				{Run: "paused", Action: workflow.Pause},
				{Run: "cancelled", Action: workflow.Cancel},
				unwanted,
			}
			for i := range 200 {
				all = append(all, signal("r", fmt.Sprint("many", i), `1`))
			}
			receipts, err := p.store.Send(p.ctx, all)
			ok(err)
			got := fmt.Sprint(receipts[:7])
			if len(receipts) != len(all) || got != "[kept over consumed unknown applied applied unwanted]" {
				fail("%d messages have %d receipts: %s", len(all), len(receipts), got)
			}
			if _, mail := p.steps("r"); len(mail) != 201 {
				fail("the mailbox has %d signals, want 201", len(mail))
			}
			receipts, err = p.store.Send(p.ctx, nil)
			if ok(err); len(receipts) != 0 {
				fail("no message has receipts %q", receipts)
			}
		},
	},
}
