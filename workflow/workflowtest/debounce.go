package workflowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/workflow"
)

// debounced returns a start that takes the place of an earlier one.
func debounced(id, input string, delay time.Duration) workflow.NewRun {
	n := starting(id)
	n.Key, n.Debounce, n.Delay, n.Input = "key", true, delay, json.RawMessage(input)
	return n
}

// moved starts a run that takes the place of another one, which is still there.
func (p *probe) moved(n workflow.NewRun, id string) {
	s := p.known(n)
	r := p.run(id)
	if s.ID != id || s.Version != r.Version || s.Status != workflow.Running || !same(r.Input, n.Input) {
		fail("a debounced start with %s tells of %+v, and the run is %s", n.Input, s, text(r))
	}
	if in := time.Until(r.Due); r.Hold == "" && (in > n.Delay+minute/2 || in < n.Delay-minute/2) {
		fail("a debounced start with a delay of %v leaves %s", n.Delay, text(r))
	}
}

var debounceClauses = []clause{
	{
		name: "debounce",
		rule: "a debounced start gives its input and its delay to the run with its key that has not begun, and adds " +
			"none",
		check: func(p *probe, _ workflow.Store) {
			first := debounced("r", `1`, 2*minute)
			first.Version, first.Group, first.RetentionDays = 3, "g", 5
			other := debounced("other", `"other"`, minute)
			other.Workflow = "other"
			p.start(first)
			p.start(other)
			p.tell(signal("r", "e", `1`), workflow.Kept)
			p.moved(debounced("second", `{"n":2}`, 4*minute), "r")
			p.moved(debounced("third", `[3]`, minute), "r")
			if r := p.run("r"); r.Version != 3 || r.Group != "g" || r.RetentionDays != 5 || r.Key != "key" {
				fail("a run that was moved is %s", text(r))
			}
			p.moved(debounced("fourth", `4`, 0), "r")
			q := plain("a")
			q.Definitions = []workflow.Definition{{Workflow: flow, Version: 3}}
			if c := p.claimed("r", q); !same(c.Input, json.RawMessage(`4`)) || c.Mail != 1 {
				fail("a run that was moved is claimed with %s", c.Input)
			}
			if all := p.runs(workflow.Query{}); len(all) != 2 || !same(p.run("other").Input, other.Input) {
				fail("debounced starts leave %d runs", len(all))
			}
		},
	},
	{
		name: "debounce-begun",
		rule: "if the run has begun or is over, a debounced start adds a run, to which the key passes",
		check: func(p *probe, _ workflow.Store) {
			p.start(debounced("r0", `0`, 0))
			passes := func(from, to string) {
				before := p.run(from)
				p.start(debounced(to, `"`+to+`"`, 0))
				after := p.run(from)
				if before.Key = ""; text(before) != text(after) || p.run(to).Key != "key" {
					fail("a debounced start after a run has begun changes\n%s to\n%s", text(before), text(after))
				}
			}
			c := p.claimed("r0", plain("a"))
			passes("r0", "r1")
			one := p.claimed("r1", plain("a"))
			p.write(later("r1", one.Fence, minute))
			passes("r1", "r2")
			p.act("r2", workflow.Cancel)
			passes("r2", "r3")
			three := p.claimed("r3", plain("b"))
			p.write(entry("r3", three.Fence, workflow.End))
			passes("r3", "r4")
			p.write(entry("r0", c.Fence, workflow.End))
			p.moved(debounced("r5", `5`, 0), "r4")
		},
	},
	{
		name: "debounce-again",
		rule: "a debounced start that is repeated changes nothing; a start with the key compares the last input",
		check: func(p *probe, _ workflow.Store) {
			first := debounced("r", `1`, minute)
			p.start(first)
			p.moved(debounced("second", `2`, 2*minute), "r")
			p.unchanged("a repeated start", func() {
				for range 2 {
					if s := p.known(first); s.ID != "r" {
						fail("a repeated start tells of %+v", s)
					}
				}
				plain := debounced("third", `2`, 0)
				plain.Debounce = false
				if s := p.known(plain); s.ID != "r" {
					fail("a start with the key tells of %+v", s)
				}
				plain.Input = first.Input
				_, err := p.store.Start(p.ctx, []workflow.NewRun{starting("x"), plain})
				want(err, workflow.ErrKeyReused)
				first.Workflow = "other"
				_, err = p.store.Start(p.ctx, []workflow.NewRun{first})
				want(err, workflow.ErrKeyReused)
			})
		},
	},
	{
		name: "debounce-several",
		rule: "debounced starts go with others, all or none",
		check: func(p *probe, _ workflow.Store) {
			reused := starting("reused")
			reused.Key = "reused"
			p.start(debounced("r", `1`, minute), reused)
			reused.ID, reused.Input = "again", json.RawMessage(`"another"`)
			p.unchanged("a refused start", func() {
				_, err := p.store.Start(p.ctx, []workflow.NewRun{starting("x"), debounced("y", `2`, 0), reused})
				want(err, workflow.ErrKeyReused)
			})
			second := debounced("second", `2`, 0)
			second.Key = "another"
			started, err := p.store.Start(p.ctx, []workflow.NewRun{
				starting("new"), debounced("moves", `3`, 0), second, owned("mine"),
			})
			ok(err)
			got := ""
			for _, s := range started {
				got += fmt.Sprintf("%s %t; ", s.ID, s.New)
			}
			if got != "new true; r false; second true; mine true; " {
				fail("Start tells of %s", got)
			}
			p.wantClaimed(many("b"), "new", "r", "second", "reused")
		},
	},
	{
		name: "debounce-held",
		rule: "a run that is paused before it has begun gets the input of a debounced start, and is paused still",
		check: func(p *probe, _ workflow.Store) {
			p.start(debounced("r", `1`, 0))
			p.act("r", workflow.Pause)
			p.moved(debounced("second", `2`, 0), "r")
			if r := p.run("r"); r.Hold != workflow.Paused || !r.Due.IsZero() {
				fail("a paused run that was moved is %s", text(r))
			}
			p.wantClaimed(many("a"))
			p.act("r", workflow.Resume)
			if c := p.claimed("r", plain("a")); !same(c.Input, json.RawMessage(`2`)) {
				fail("the run is claimed with %s", c.Input)
			}
		},
	},
	{
		name: "race-debounce",
		rule: "of many debounced starts at once one adds a run, and it has the input of one of them",
		check: func(p *probe, s workflow.Store) {
			for i := range 3 {
				started, acts := make([]workflow.Started, crowd), make([]func(), crowd)
				errs := make([]error, crowd)
				for c := range crowd {
					n := debounced(fmt.Sprint("r", i, "-", c), fmt.Sprint(c), minute)
					n.Key = fmt.Sprint("key", i)
					acts[c] = func() {
						all, err := s.Start(p.ctx, []workflow.NewRun{n})
						if errs[c] = err; err == nil {
							started[c] = all[0]
						}
					}
				}
				suite.Together(acts...)
				ok(errors.Join(errs...))
				added := 0
				for _, st := range started {
					if st.ID != started[0].ID {
						fail("one key has the runs %q and %q", st.ID, started[0].ID)
					}
					if st.New {
						added++
					}
				}
				if all := p.runs(workflow.Query{}); added != 1 || len(all) != i+1 {
					fail("%d debounced starts add %d runs, and there are %d", crowd, added, len(all))
				}
				last := debounced("last", `"last"`, minute)
				last.Key = fmt.Sprint("key", i)
				p.moved(last, started[0].ID)
			}
		},
	},
	{
		name: "race-debounce-claim",
		rule: "of a debounced start and a claim of the run before, either the run is claimed as it was, and another " +
			"is added, or it is claimed as it is then",
		check: func(p *probe, s workflow.Store) {
			for i := range 2 * races {
				id := fmt.Sprint("r", i)
				n := debounced(id, `1`, 0)
				n.Key = id
				p.start(n)
				second := n
				second.ID, second.Input = id+"-2", json.RawMessage(`2`)
				var got call
				var started []workflow.Started
				var err error
				suite.Together(p.claims(&got, plain("a")), func() {
					started, err = s.Start(p.ctx, []workflow.NewRun{second})
				})
				ok(errors.Join(got.err, err))
				if len(got.claimed) == 0 { // the start had locked the run
					got.claimed = append(got.claimed, p.claimed(id, plain("a")))
				}
				c := got.claimed[0]
				with := string(c.Input)
				switch {
				case c.ID != id:
					fail("the claim gets %q", c.ID)
				case with == "1" && started[0].New && started[0].ID == second.ID:
					if c := p.claimed(second.ID, plain("b")); string(c.Input) != "2" {
						fail("the second run has %s", c.Input)
					}
				case with == "2" && !started[0].New && started[0].ID == id:
				default:
					fail("the claim gets the run with %s, and the start tells of %+v", with, started[0])
				}
				if r := p.run(id); string(r.Input) != with {
					fail("the run was claimed with %s, and has %s", with, r.Input)
				}
			}
		},
	},
}
