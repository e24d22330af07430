package workflowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// A probe is a store whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx   context.Context
	store workflow.Store
}

// flow is the workflow of most runs.
const flow = "flow"

// definition is what the claims of the clauses ask for.
var definition = []workflow.Definition{{Workflow: flow, Version: 1}}

// mostCrashes is how many owners may lose a run where a clause does not count them.
const mostCrashes = 1000

// starting returns a run that can be started.
func starting(id string) workflow.NewRun {
	return workflow.NewRun{ID: id, Workflow: flow, Version: 1, Input: json.RawMessage(`{"n":1}`)}
}

// owned returns a run that begins owned by process a.
func owned(id string) workflow.NewRun {
	n := starting(id)
	n.Owner, n.Fence = "a", lock.Fence{Epoch: 1, Nonce: "start of " + id}
	return n
}

// tick lets the clock go on, so that a store in memory gives what comes before and after it different times.
func tick() { time.Sleep(2 * time.Microsecond) }

// start starts runs that are new.
func (p *probe) start(runs ...workflow.NewRun) {
	tick()
	started, err := p.store.Start(p.ctx, runs)
	ok(err)
	if len(started) != len(runs) {
		fail("Start of %d runs tells of %d", len(runs), len(started))
	}
	for i, s := range started {
		if !s.New || s.ID != runs[i].ID || s.Status != workflow.Running || s.Version < 1 {
			fail("Start of %q: %+v, want a new run", runs[i].ID, s)
		}
	}
}

// known starts a run whose id or key is known. It returns what Start tells.
func (p *probe) known(n workflow.NewRun) workflow.Started {
	started, err := p.store.Start(p.ctx, []workflow.NewRun{n})
	ok(err)
	if len(started) != 1 || started[0].New {
		fail("Start of %q with key %q: %+v, want one that is known", n.ID, n.Key, started)
	}
	return started[0]
}

// begun starts a run, and claims it for a process.
func (p *probe) begun(id, process string) workflow.Claimed {
	p.start(starting(id))
	return p.claimed(id, plain(process))
}

// begins starts a run that a owns, and returns its fence.
func (p *probe) begins(id string) lock.Fence {
	n := owned(id)
	p.start(n)
	return n.Fence
}

// plain asks for one run that is due.
func plain(process string) workflow.ClaimRequest {
	return workflow.ClaimRequest{Process: process, Nonce: workflow.NewID(), Definitions: definition, Limit: 1}
}

// from asks for all that another process owns.
func from(process, other string) workflow.ClaimRequest {
	q := plain(process)
	q.From, q.Limit, q.MostCrashes = other, 100, mostCrashes
	return q
}

// lease asks for all that has stood still for d.
func lease(process string, d time.Duration) workflow.ClaimRequest {
	q := plain(process)
	q.Lease, q.Limit, q.MostCrashes = d, 100, mostCrashes
	return q
}

// again asks for all that a claim or a start with a nonce got.
func again(process, nonce string) workflow.ClaimRequest {
	q := plain(process)
	q.Again, q.Limit = nonce, 100
	return q
}

// claim returns what a request gets. It checks what every claim must have.
func (p *probe) claim(q workflow.ClaimRequest) (all []workflow.Claimed, next time.Duration) {
	all, next, err := p.store.Claim(p.ctx, q)
	ok(err)
	if len(all) > q.Limit || next < 0 || next > 0 && len(all) == q.Limit {
		fail("Claim of %d runs returns %d, and the next is due in %v", q.Limit, len(all), next)
	}
	for _, c := range all {
		switch {
		case c.Owner != q.Process || c.Fence.Nonce != q.Nonce || c.Fence.Epoch < 1:
			fail("claimed for %q with nonce %q: %+v", q.Process, q.Nonce, c)
		case c.Status != workflow.Running || c.Hold != "" || c.Error != "" || c.Event != "" || !c.Due.IsZero():
			fail("a run that is claimed is %+v", c.Run)
		case c.Now.IsZero() || c.Now.Before(c.Started.Add(-clocks)):
			fail("a run of %v is claimed at %v", c.Started, c.Now)
		}
	}
	return all, next
}

// clocks is how far the clock of a store may go back within a test.
const clocks = time.Second

// claimed claims one run, which must be the named one.
func (p *probe) claimed(id string, q workflow.ClaimRequest) workflow.Claimed {
	all, _ := p.claim(q)
	if len(all) != 1 || all[0].ID != id {
		fail("Claim gets %q, want %q", names(all), id)
	}
	return all[0]
}

// wantClaimed checks which runs a claim gets, in any order.
func (p *probe) wantClaimed(q workflow.ClaimRequest, ids ...string) {
	all, _ := p.claim(q)
	got := names(all)
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		fail("Claim gets %q, want %q", got, ids)
	}
}

func names(all []workflow.Claimed) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids
}

// entry returns an entry that compares no mail.
func entry(id string, f lock.Fence, next workflow.Next, steps ...workflow.Step) workflow.Entry {
	e := workflow.Entry{Run: id, Fence: f, Next: next, Steps: steps, Mail: -1}
	switch next {
	case workflow.End:
		e.Status, e.Output = workflow.Completed, json.RawMessage(`"end"`)
	case workflow.Stop:
		e.Held, e.Error = workflow.Drifted, "another body"
	}
	return e
}

// waiting returns an entry that parks a run until a signal comes.
func waiting(id string, f lock.Fence, event string) workflow.Entry {
	e := entry(id, f, workflow.Park)
	e.Event = event
	return e
}

// done returns the row of a step that is done.
func done(name string) workflow.Step {
	return workflow.Step{
		Name: name, Kind: workflow.KindStep, Outcome: workflow.Done, Output: json.RawMessage(`1`), Attempts: 1,
	}
}

// verdict returns what Write says of one entry.
func (p *probe) verdict(e workflow.Entry) error {
	all := p.verdicts(e)
	return all[0]
}

func (p *probe) verdicts(entries ...workflow.Entry) []error {
	tick()
	all, err := p.store.Write(p.ctx, entries)
	ok(err)
	if len(all) != len(entries) {
		fail("Write of %d entries has %d verdicts", len(entries), len(all))
	}
	return all
}

// write writes entries, each of which must be taken.
func (p *probe) write(entries ...workflow.Entry) {
	for _, err := range p.verdicts(entries...) {
		ok(err)
	}
}

func signal(id, event, payload string) workflow.Message {
	return workflow.Message{
		Run: id, Action: workflow.Signal, ID: "of " + event, Event: event, Payload: json.RawMessage(payload),
	}
}

// tell sends one message and checks its receipt.
func (p *probe) tell(m workflow.Message, receipt workflow.Receipt) {
	tick()
	got, err := p.store.Send(p.ctx, []workflow.Message{m})
	ok(err)
	if len(got) != 1 || got[0] != receipt {
		fail("%s %q %q to %q: receipt %q, want %q", m.Action, m.Event, m.ID, m.Run, got, receipt)
	}
}

// act cancels, pauses or resumes a run.
func (p *probe) act(id string, a workflow.Action) {
	p.tell(workflow.Message{Run: id, Action: a}, workflow.Applied)
}

// runs returns what a query yields.
func (p *probe) runs(q workflow.Query) (all []workflow.Run) {
	for r, err := range p.store.Runs(p.ctx, q) {
		ok(err)
		all = append(all, r)
	}
	return all
}

func (p *probe) wantRuns(q workflow.Query, ids ...string) {
	var got []string
	for _, r := range p.runs(q) {
		got = append(got, r.ID)
	}
	if !slices.Equal(got, ids) {
		fail("Runs of %+v yields %.400q, want %.400q", q, got, ids)
	}
}

func (p *probe) run(id string) workflow.Run {
	all := p.runs(workflow.Query{ID: id})
	if len(all) != 1 || all[0].ID != id {
		fail("Runs of %q yields %d runs", id, len(all))
	}
	return all[0]
}

// steps returns the journal of a run and its mailbox.
func (p *probe) steps(id string) (journal, mail []workflow.Step) {
	for s, err := range p.store.Steps(p.ctx, id) {
		ok(err)
		if s.Kind == workflow.KindSignal {
			mail = append(mail, s)
			continue
		}
		if journal = append(journal, s); len(mail) > 0 {
			fail("step %q comes after a signal", s.Name)
		}
	}
	return journal, mail
}

// wantSteps checks the names and outcomes of a journal, in any order: "a done".
func (p *probe) wantSteps(id string, steps ...string) {
	var got []string
	journal, _ := p.steps(id)
	for _, s := range journal {
		got = append(got, s.Name+" "+string(s.Outcome))
	}
	slices.Sort(got)
	slices.Sort(steps)
	if !slices.Equal(got, steps) {
		fail("the journal of %q is %q, want %q", id, got, steps)
	}
}

// wantMail checks the ids of the signals in the mailbox of a run, oldest first.
func (p *probe) wantMail(id string, signals ...string) {
	var got []string
	_, mail := p.steps(id)
	for _, s := range mail {
		got = append(got, s.Signal)
	}
	if !slices.Equal(got, signals) {
		fail("the mailbox of %q has %q, want %q", id, got, signals)
	}
}

// step returns one row of a journal.
func (p *probe) step(id, name string) workflow.Step {
	journal, _ := p.steps(id)
	i := slices.IndexFunc(journal, func(s workflow.Step) bool { return s.Name == name })
	if i < 0 {
		fail("the journal of %q has no %q", id, name)
	}
	return journal[i]
}

// state returns all that can be read of the store, for comparison.
func (p *probe) state() string {
	var b strings.Builder
	for _, r := range p.runs(workflow.Query{}) {
		fmt.Fprintf(&b, "%+v\n", text(r))
		for s, err := range p.store.Steps(p.ctx, r.ID) {
			ok(err)
			fmt.Fprintf(&b, "\t%+v %s\n", s, s.Output)
		}
	}
	return b.String()
}

func text(r workflow.Run) string { return fmt.Sprintf("%+v %s %s", r, r.Input, r.Output) }

// unchanged checks that act changes nothing that can be read.
func (p *probe) unchanged(what string, act func()) {
	before := p.state()
	act()
	if after := p.state(); after != before {
		fail("%s changes what was\n%sto\n%s", what, before, after)
	}
}

// same reports whether documents are equal as JSON values. nil equals nil alone.
func same(got, want json.RawMessage) bool {
	if got == nil || want == nil {
		return got == nil && want == nil
	}
	a, err := jsonvalue.Canonical(got)
	b, other := jsonvalue.Canonical(want)
	return err == nil && other == nil && string(a) == string(b)
}

// recent checks that a time is one of the store, of about now.
func recent(what string, at time.Time) {
	const most = time.Hour // by which the clocks of a store and of the test may differ
	if since := time.Since(at); since < -most || since > most || at.Location() != time.UTC {
		fail("%s is %v, want now, in UTC", what, at)
	}
}
