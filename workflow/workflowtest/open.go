package workflowtest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

// A Change is what another process does with a run.
type Change string

// The changes.
const (
	Taken  Change = "taken"  // its epoch is higher by one, its nonce is "taken", and its owner is "taker"
	Ended  Change = "ended"  // it is completed, with the output null
	Parked Change = "parked" // it has no owner, is never due, and waits for the event "e"
	Mailed Change = "mailed" // it has got one more signal, of the id "open" and the event "e"
	Begun  Change = "begun"  // it has a child of the id "begun", which is due, and is locked against a Cancel
)

// An OpeningStore can begin to change a run and leave the change open, as the transaction of another process does. Only
// the tests of a backend know how to do so.
type OpeningStore interface {
	workflow.Store

	// Open changes a run that has an owner, in a transaction. commit ends the transaction.
	Open(ctx context.Context, run string, c Change) (commit func() error, err error)
}

// RunOpening checks the clauses about calls that meet a change which is under way. newStore must return an empty store
// each time it is called.
func RunOpening(t *testing.T, newStore func(t *testing.T) OpeningStore) {
	bound(slices.Concat(openClauses, openFamilyClauses)).Run(t, newStore)
}

// OpeningViolations is [Violations] for the clauses about calls that meet a change which is under way.
func OpeningViolations(ctx context.Context, newStore func() OpeningStore, names ...string) map[string]error {
	return bound(slices.Concat(openClauses, openFamilyClauses)).Violations(ctx, newStore, names...)
}

// slow is for how long a change is under way. A store that keeps the clauses keeps them for any time.
const slow = 100 * time.Millisecond

// meets calls while a change of run r is under way, and waits for the answer. A call that must wait has no answer
// before the change has ended.
func (p *probe) meets(s OpeningStore, change Change, waits bool, c *call, act func()) {
	commit, err := s.Open(p.ctx, "r", change)
	ok(err)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		act()
	}()
	early := false
	select {
	case <-answered:
		early = waits
	case <-time.After(slow):
	}
	ok(commit())
	<-answered
	if ok(c.err); early {
		fail("while the run is %s, the call returns %v %q before the change has ended", change, c.verdict, c.receipt)
	}
}

var openClauses = []clauseOn[OpeningStore]{
	{
		name: "open-write",
		rule: "a Write waits for a takeover of its run that has begun, and is ErrFenced then",
		check: func(p *probe, s OpeningStore) {
			for _, next := range nexts {
				f := owned("r").Fence
				if next == workflow.Stay {
					p.begins("r")
				} else {
					f = p.claimed("r", from("a", "taker")).Fence
				}
				var c call
				p.meets(s, Taken, true, &c, p.writes(&c, entry("r", f, next, done("late"))))
				want(c.verdict, fenced)
				if r := p.run("r"); r.Owner != "taker" {
					fail("the run that was taken is %s", text(r))
				}
			}
			p.wantSteps("r")
		},
	},
	{
		name: "open-write-over",
		rule: "a Write waits for the end of its run that has begun, and is ErrOver then",
		check: func(p *probe, s OpeningStore) {
			f := p.begins("r")
			var c call
			p.meets(s, Ended, true, &c, p.writes(&c, entry("r", f, workflow.Stay, done("late"))))
			want(c.verdict, workflow.ErrOver)
			p.wantSteps("r")
		},
	},
	{
		name: "open-write-mail",
		rule: "an entry that compares mail waits for a signal that has begun, and is ErrMail then",
		check: func(p *probe, s OpeningStore) {
			e := waiting("r", p.begins("r"), "e")
			e.Mail, e.Steps = 0, []workflow.Step{done("late")}
			var c call
			p.meets(s, Mailed, true, &c, p.writes(&c, e))
			want(c.verdict, workflow.ErrMail)
			p.wantSteps("r")
			p.wantMail("r", "open")
		},
	},
	{
		name: "open-signal-over",
		rule: "a signal to a run whose end has begun waits, and is told that the run is over: it is in no mailbox",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			p.meets(s, Ended, true, &c, p.sends(&c, signal("r", "e", `1`)))
			if c.receipt != workflow.Over {
				fail("a signal to a run that ends is %s", c.receipt)
			}
			p.wantMail("r")
		},
	},
	{
		name: "open-signal-wait",
		rule: "a signal to a run that is about to wait for it is consumed, and makes the run due",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			p.meets(s, Parked, true, &c, p.sends(&c, signal("r", "e", `1`)))
			if c.receipt != workflow.Consumed {
				fail("a signal to a run that is about to wait for it is %s", c.receipt)
			}
			p.wantMail("r", "of e")
			p.claimed("r", plain("b"))
		},
	},
	{
		name: "open-signal-mail",
		rule: "a signal waits for another one that has begun, and both count",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			p.meets(s, Mailed, true, &c, p.sends(&c, signal("r", "e", `1`)))
			p.wantMail("r", "open", "of e")
			if c := p.claimed("r", from("b", "a")); c.Mail != 2 {
				fail("two signals count as %d", c.Mail)
			}
		},
	},
	{
		name: "open-signal-again",
		rule: "a signal that is sent again while its first call is under way counts once",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			again := signal("r", "e", `1`)
			again.ID = "open"
			var c call
			p.meets(s, Mailed, true, &c, p.sends(&c, again))
			if p.wantMail("r", "open"); c.receipt != workflow.Kept {
				fail("a repeated signal is %s", c.receipt)
			}
			if c := p.claimed("r", from("b", "a")); c.Mail != 1 {
				fail("a signal counts as %d", c.Mail)
			}
		},
	},
	{
		name: "open-cancel",
		rule: "a cancellation waits for the end of its run that has begun, and changes nothing then",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			var c call
			p.meets(s, Ended, true, &c, p.sends(&c, workflow.Message{Run: "r", Action: workflow.Cancel}))
			if r := p.run("r"); c.receipt != workflow.Over || r.Status != workflow.Completed {
				fail("the cancellation is %s, and the run %s", c.receipt, text(r))
			}
		},
	},
	{
		name: "open-claim",
		rule: "a claim does not get a run that another call is taking or ending, before or after it has done so",
		check: func(p *probe, s OpeningStore) {
			p.begins("r")
			for _, change := range []Change{Taken, Ended} {
				owner := "a"
				if change == Ended {
					owner = p.claimed("r", from("b", "taker")).Owner
				}
				var c call
				p.meets(s, change, false, &c, p.claims(&c, from("c", owner)))
				if len(c.claimed) > 0 {
					fail("a claim gets a run that is %s meanwhile", change)
				}
			}
		},
	},
}
