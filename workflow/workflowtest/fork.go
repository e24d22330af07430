package workflowtest

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/workflow"
)

// A rowOf is a row of a journal that a clause lays out, in the order of the starts.
type rowOf struct {
	name    string
	index   int
	kind    workflow.Kind
	outcome workflow.Outcome
}

// laid are the rows of a run that is to be forked or rewound: of two branches, and of a branch of one of them.
var laid = []rowOf{
	{"a", 0, workflow.KindStep, workflow.Done},
	{"left/a", 0, workflow.KindStep, workflow.Broken},
	{"right/w", 0, workflow.KindWait, workflow.TimedOut},
	{"left/kept", 1, workflow.KindChild, workflow.Open},
	{"b", 1, workflow.KindWait, workflow.Done},
	{"left/c", 2, workflow.KindWait, workflow.Done},
	{"left/in/s", 0, workflow.KindSleep, workflow.Open},
	{"c", 2, workflow.KindChild, workflow.Open},
	{"d", 3, workflow.KindStep, workflow.Retrying},
}

// lay starts a run that a owns, with the rows of laid, a late row, three signals and two children.
func (p *probe) lay(id string) {
	n := owned(id)
	n.Input = []byte(`{"n":2}`)
	p.start(n)
	for _, event := range []string{"b", "c", "kept"} {
		p.tell(signal(id, event, `1`), workflow.Kept)
	}
	for _, l := range laid {
		st := workflow.Step{Name: l.name, Index: l.index, Kind: l.kind, Outcome: l.outcome, Attempts: 1}
		switch {
		case l.kind == workflow.KindChild:
			p.start(ownedChild(id, id+"."+l.name[len(l.name)-1:]))
			st.Output = []byte(`"` + id + "." + l.name[len(l.name)-1:] + `"`)
		case l.outcome == workflow.Open:
			st.For = minute
		case l.outcome == workflow.Done:
			st.Output = []byte(`{"v":1}`)
		}
		if l.kind == workflow.KindWait && l.outcome == workflow.Done {
			st.Signal = "of " + l.name[len(l.name)-1:]
		}
		p.write(entry(id, n.Fence, workflow.Stay, st))
	}
	late := done("late")
	late.Index = 4
	p.write(entry(id, n.Fence, workflow.Record, late))
}

// cuts are the rows of laid that a fork from a step has, and those that a rewind leaves.
var cuts = map[string]struct{ forked, left []string }{
	"a":      {nil, nil},
	"b":      {[]string{"a done", "left/a failed", "right/w timeout"}, []string{"left/kept open"}},
	"left/a": {[]string{"a done"}, nil},
	"left/in/s": {
		[]string{"a done", "left/a failed", "right/w timeout", "b done", "left/c done"}, []string{"left/kept open"},
	},
	"d": {
		[]string{"a done", "left/a failed", "right/w timeout", "b done", "left/c done"},
		[]string{"left/kept open", "left/in/s open", "c open"},
	},
}

var forkClauses = []clause{
	{
		name: "fork",
		rule: "a run with From begins with a copy of what has ended before FromStep, by the place in the branch of " +
			"the step, and by the start in another branch. It has a mailbox of its own, and its first owner knows",
		check: func(p *probe, _ workflow.Store) {
			p.lay("r")
			before := p.journalOf("r")
			for step, cut := range cuts {
				n := starting("fork of " + step)
				n.Input, n.From, n.FromStep, n.Key = []byte(`{"n":2}`), "r", step, "key "+step
				p.start(n)
				p.known(n)
				p.wantSteps(n.ID, cut.forked...)
				p.wantMail(n.ID)
				for _, st := range p.journalOf(n.ID) {
					i := slices.IndexFunc(before, func(b workflow.Step) bool { return b.Name == st.Name })
					was := before[i]
					was.Signal = ""
					if fmt.Sprint(was) != fmt.Sprint(st) {
						fail("the copy of %+v is %+v", was, st)
					}
				}
				c := p.claimed(n.ID, plain("b"))
				if c.Fence.Epoch < 2 || c.Mail != 0 || c.Parent != "" {
					fail("a fork is claimed as %+v", c)
				}
				p.write(entry(n.ID, c.Fence, workflow.Stay, done("more")))
			}
			if after := p.journalOf("r"); fmt.Sprint(after) != fmt.Sprint(before) {
				fail("forks change the journal %+v to %+v", before, after)
			}
			p.statuses(workflow.Running, "r", "r.t", "r.c")
			p.wantMail("r", "of kept")
		},
	},
	{
		name: "fork-refused",
		rule: "a fork of a run, or from a step, that is not there is ErrNotFound, and adds no run of its call",
		check: func(p *probe, s workflow.Store) {
			p.lay("r")
			p.unchanged("a fork of nothing", func() {
				for _, from := range [][2]string{{"nobody", "a"}, {"r", "no"}, {"r", "A"}, {"r", "left"}} {
					for _, version := range []int{0, 1} {
						n := starting("fork")
						n.From, n.FromStep, n.Version = from[0], from[1], version
						for _, all := range [][]workflow.NewRun{{n}, {starting("before"), n, starting("zzz")}} {
							_, err := s.Start(p.ctx, all)
							want(err, workflow.ErrNotFound)
						}
					}
				}
			})
		},
	},
	{
		name: "rewind",
		rule: "Rewind takes a run that is owned, held or failed back to before a step: the rows from there on go, " +
			"their signals lie in the mailbox again, the children that no row knows are cancelled, and the run is due",
		check: func(p *probe, _ workflow.Store) {
			for step, cut := range cuts {
				for _, how := range []string{"owned", "paused", "failed"} {
					id := how + " " + step
					p.lay(id)
					f := owned(id).Fence
					switch how {
					case "paused":
						p.act(id, workflow.Pause)
					case "failed":
						e := entry(id, f, workflow.End)
						e.Status, e.Error, e.Output = workflow.Failed, "no", nil
						p.write(e)
					}
					p.tell(workflow.Message{Run: id, Action: workflow.Rewind, Event: step}, workflow.Applied)
					p.wantRewound(id, step, cut.forked, cut.left)
					want(p.verdict(entry(id, f, workflow.Stay, done("s"))), fenced)
					c := p.claimed(id, plain("b"))
					if c.Mail != 3 || c.Fence.Epoch < 2 {
						fail("a run that is rewound is claimed as %+v", c)
					}
					p.act(id, workflow.Cancel)
				}
			}
		},
	},
	{
		name: "rewind-refused",
		rule: "Rewind changes nothing of a run that is completed or cancelled, which is over, and of one without " +
			"such a step, which is unknown",
		check: func(p *probe, _ workflow.Store) {
			p.lay("completed")
			p.lay("cancelled")
			p.lay("running")
			p.write(entry("completed", owned("completed").Fence, workflow.End))
			p.act("cancelled", workflow.Cancel)
			p.unchanged("a Rewind", func() {
				p.tell(workflow.Message{Run: "completed", Action: workflow.Rewind, Event: "b"}, workflow.Over)
				p.tell(workflow.Message{Run: "cancelled", Action: workflow.Rewind, Event: "b"}, workflow.Over)
				p.tell(workflow.Message{Run: "running", Action: workflow.Rewind, Event: "no"}, workflow.Unknown)
				p.tell(workflow.Message{Run: "nobody", Action: workflow.Rewind, Event: "b"}, workflow.Unknown)
			})
			p.write(entry("running", owned("running").Fence, workflow.Stay, done("s")))
		},
	},
	{
		name: "race-rewind",
		rule: "of a Rewind and an entry of the owner, the entry is refused, or its rows go too",
		check: func(p *probe, _ workflow.Store) {
			for i := range races {
				id := fmt.Sprint("r", i)
				f := p.begins(id)
				p.write(entry(id, f, workflow.Stay, done("s")))
				next := done("t")
				next.Index = 1
				var write, back call
				together([]*call{&write, &back}, p.writes(&write, entry(id, f, workflow.Stay, next)),
					p.sends(&back, workflow.Message{Run: id, Action: workflow.Rewind, Event: "s"}))
				if p.wantSteps(id); write.verdict != nil {
					want(write.verdict, fenced)
				}
				p.claimed(id, plain("b"))
			}
		},
	},
}

// journalOf returns the journal of a run without its mailbox.
func (p *probe) journalOf(id string) []workflow.Step {
	journal, _ := p.steps(id)
	return journal
}

// wantRewound checks a run of lay that was rewound.
func (p *probe) wantRewound(id, step string, ended, open []string) {
	p.wantSteps(id, slices.Concat(ended, open)...)
	r := p.run(id)
	if r.Status != workflow.Running || r.Hold != "" || r.Error != "" || r.Owner != "" || r.Due.IsZero() ||
		r.Event != "" || !r.Completed.IsZero() || r.Output != nil {
		fail("a run that is rewound is %s", text(r))
	}
	var mail []string
	for _, event := range []string{"b", "c"} {
		if !slices.Contains(ended, event+" done") && !slices.Contains(ended, "left/"+event+" done") {
			mail = append(mail, "of "+event)
		}
	}
	p.wantMail(id, append(mail, "of kept")...)
	for child, row := range map[string]string{"t": "left/kept open", "c": "c open"} {
		status := workflow.Cancelled
		if slices.Contains(open, row) {
			status = workflow.Running
		}
		p.statuses(status, id+"."+child)
	}
}
