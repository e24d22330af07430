package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
)

// A probe is a ledger whose verbs leave the clause if they fail. Only the clause's goroutine may call them.
type probe struct {
	ctx    context.Context
	ledger ledger.Ledger
}

var nonces atomic.Int64

// fence returns a fence of this epoch with a nonce of its own.
func fence(epoch int64) lock.Fence {
	return lock.Fence{Epoch: epoch, Nonce: fmt.Sprintf("nonce-%d", nonces.Add(1))}
}

// effect returns an effect that is ready to be issued.
func effect(run, id string, f lock.Fence) ledger.Effect {
	return ledger.Effect{
		ID: id, Orchestrator: "bot", Session: "session of " + run, RunID: run, Iteration: 2, Intent: "pay",
		Name: "charge", Each: id, Fence: f, Args: json.RawMessage(`{"cents":100}`), ArgsSum: "k:1",
	}
}

// keyed returns an effect that belongs to the world.
func keyed(run, id string, f lock.Fence) ledger.Effect {
	e := effect(run, id, f)
	e.Each, e.Key = "", "order of "+id
	return e
}

func (p *probe) adopt(run string, f lock.Fence) { ok(p.ledger.Adopt(p.ctx, run, f)) }

// issue issues e, and returns it.
func (p *probe) issue(e ledger.Effect) ledger.Effect { return p.issueAs(e, false, true) }

// issueAgain issues e anew, as the attempt after the last one.
func (p *probe) issueAgain(e ledger.Effect) ledger.Effect {
	e.Attempts = p.kept(e.ID).Attempts
	return p.issueAs(e, true, true)
}

// meet asks for e, which must not be issued.
func (p *probe) meet(e ledger.Effect, again bool) ledger.Effect {
	e.Attempts = p.kept(e.ID).Attempts
	return p.issueAs(e, again, false)
}

func (p *probe) issueAs(e ledger.Effect, again, want bool) ledger.Effect {
	now, issued, err := p.ledger.Issue(p.ctx, e, again)
	ok(err)
	if issued != want {
		fail("Issue of %s, again %t: issued is %t, and the effect %+v", e.ID, again, issued, now)
	}
	return now
}

func (p *probe) finish(e ledger.Effect, o ledger.Outcome) ledger.Effect {
	now, err := p.ledger.Finish(p.ctx, e.ID, e.Attempts, o)
	ok(err)
	return now
}

// The outcomes of an attempt.
var (
	paid    = ledger.Outcome{State: ledger.Completed, Result: json.RawMessage(`"receipt"`)}
	failed  = ledger.Outcome{State: ledger.Failed, Error: "declined"}
	unknown = ledger.Outcome{State: ledger.Unknown, Error: "timeout"}
	skipped = ledger.Outcome{State: ledger.Skipped}
)

// effects returns what a query selects.
func (p *probe) effects(q ledger.Query) (all []ledger.Effect) {
	for e, err := range p.ledger.Effects(p.ctx, q) {
		ok(err)
		all = append(all, e)
	}
	return all
}

// kept returns the effect with an id.
func (p *probe) kept(id string) ledger.Effect {
	all := p.effects(ledger.Query{ID: id})
	if len(all) != 1 {
		fail("%d effects have the id %s", len(all), id)
	}
	return all[0]
}

// wantState checks the state of an effect and its last attempt.
func (p *probe) wantState(id string, s ledger.State, attempts int) ledger.Effect {
	e := p.kept(id)
	if e.State != s || e.Attempts != attempts {
		fail("effect %s is %s after %d attempts, want %s after %d", id, e.State, e.Attempts, s, attempts)
	}
	return e
}

// wantSame checks that an effect is as it was.
func (p *probe) wantSame(e ledger.Effect) {
	if now := p.kept(e.ID); !reflect.DeepEqual(plain(now), plain(e)) {
		fail("effect %s is\n%+v, and was\n%+v", e.ID, now, e)
	}
}

// plain returns e with its documents in one form, and without its age, which grows.
func plain(e ledger.Effect) ledger.Effect {
	e.Args, e.Result, e.Age = compact(e.Args), compact(e.Result), 0
	return e
}

func compact(doc json.RawMessage) json.RawMessage {
	var v any
	if doc == nil || json.Unmarshal(doc, &v) != nil {
		return doc
	}
	raw, err := json.Marshal(v)
	ok(err)
	return raw
}

func (p *probe) resolve(id string, a ledger.Answer) error {
	return ledger.Resolve(p.ctx, p.ledger, id, a)
}

// doubtful returns an effect that is Unknown, and a fence with which its run may go on.
func (p *probe) doubtful(run, id string) (ledger.Effect, lock.Fence) {
	e := p.issue(effect(run, id, fence(10)))
	next := fence(11)
	p.adopt(run, next)
	return p.wantState(e.ID, ledger.Unknown, 1), next
}

// later is after everything that a clause has written.
func later() time.Time { return time.Now().Add(time.Hour) }
