package orchestrator_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/turnlog"
)

var errBad = errors.New("bad")

// definition is the bot of the plan. Its functions die with the process.
func (p *mortal) definition() orchestrator.Definition[odd] {
	d := orchestrator.Definition[odd]{
		Name: oddName, First: p.first, Iterate: p.iterate, Intents: make(orchestrator.Intents[odd]),
	}
	for _, name := range p.names {
		d.Intents[name] = p.intentOf(name)
	}
	if p.route {
		d.Route = p.decides("route", "")
	}
	if p.evaluate && p.iterate {
		d.Evaluate = p.decides("evaluate", "")
	}
	if p.begins {
		d.Begin = func(ctx context.Context, t *oddTurn) error {
			saw, err := p.run(ctx, t, "begin", "")
			if err == nil {
				p.change(&t.State, saw, "begin")
			}
			return err
		}
	}
	if p.merge {
		d.Merge = p.merged
	}
	if p.deliver {
		d.Deliver = p.tell
	}
	return d
}

func (p *mortal) intentOf(name string) orchestrator.Intent[odd] {
	in := orchestrator.Intent[odd]{Run: func(ctx context.Context, t *oddTurn) error {
		saw, err := p.run(ctx, t, "intent", name)
		if err != nil {
			return err
		}
		if p.merge && p.chance(70, "log", saw) {
			p.change(&t.State, saw, name)
		}
		p.changeField(&t.State, p.branch(name, t.ItemNumber), saw)
		return nil
	}}
	if p.retries(name) {
		in.Retry, in.Timeout = retry.Fixed(6, time.Second), time.Minute
	}
	then, next := p.follows(name)
	in.Next = next
	if then {
		in.Then = p.decides("then", name)
	}
	return in
}

// branch numbers the intents with their items, of which there are three at most.
func (p *plan) branch(intent string, item int) int {
	return slices.Index(p.names, intent)*3 + max(0, item-1)%3
}

// decides is a Route, Evaluate or Then.
func (p *mortal) decides(where, intent string) func(context.Context, *oddTurn) (Next, error) {
	return func(ctx context.Context, t *oddTurn) (Next, error) {
		if where == "evaluate" {
			t.Feedback = ""
		}
		saw, err := p.run(ctx, t, where, intent)
		if err != nil {
			return Next{}, err
		}
		if p.chance(60, "changes", where, intent, saw) {
			p.change(&t.State, saw, where+intent)
		}
		if where == "evaluate" && p.chance(50, "feedback", saw) {
			t.Feedback = "f" + saw
		}
		if where != "route" && p.chance(60, "no opinion", saw) {
			return Next{}, nil
		}
		return p.next(saw, where, t.Iteration), nil
	}
}

// merged takes the state of the last branch, and notes all of them.
func (p *mortal) merged(base odd, branches []odd) (odd, error) {
	if !p.survives("merge") {
		return base, errDead
	}
	raw, err := json.Marshal(branches)
	if err != nil {
		return base, err
	}
	h := sha256.Sum256(raw)
	s := branches[len(branches)-1]
	s.Log = append(slices.Clone(base.Log), fmt.Sprintf("merged %x", h[:6]))
	return s, nil
}

// tell delivers a reply.
func (p *mortal) tell(_ context.Context, r *orchestrator.Result[odd]) error {
	if !p.survives("deliver") {
		return errDead
	}
	p.notes.tell(r.Turn)
	return nil
}

// run is what each function of the bot does before it changes the state. It returns a digest of what the function saw.
func (p *mortal) run(ctx context.Context, t *oddTurn, where, intent string) (saw string, err error) {
	at := place{t.Input.Text, t.Iteration, where, intent, t.ItemNumber}
	if !p.survives("enter " + at.String()) {
		return "", errDead
	}
	if where == "intent" { // one branch after the other, so that each run of the test has the same order
		time.Sleep(time.Microsecond << (6*slices.Index(p.names, intent) + min(t.ItemNumber, 5)))
	}
	used := 1 + p.pick(5, "usage", at)
	p.notes.enter(p.plan, t.RunID, at, used)
	saw = digestOf(t)
	t.AddUsage(orchestrator.Usage{Input: used, Cost: float64(p.pick(3, "cost", at))})
	if p.withLog && where != "begin" && p.chance(40, "phase", where, intent, t.Iteration) {
		if err := t.Record(ctx, turnlog.LLMComplete, saw); err != nil {
			return "", err
		}
	}
	if err := p.failsOnce(ctx, at); err != nil {
		return "", err
	}
	if where != "begin" && p.withLedger && p.chance(45, "effects", where, intent, t.Iteration) {
		got, err := p.effects(ctx, t, at, saw)
		if err != nil {
			return "", err
		}
		saw += got
	}
	if p.failsForGood(where, intent, t.Iteration) {
		return "", errBad
	}
	if !p.survives("leave " + at.String()) {
		return "", errDead
	}
	p.notes.leave(at)
	return saw, nil
}

// failsOnce fails an intent that is tried again, or lets it hang, the first time that the process comes by.
func (p *mortal) failsOnce(ctx context.Context, at place) error {
	if at.where != "intent" || !p.retries(at.intent) ||
		!p.chance(50, "fails once", at.iteration, at.intent, at.item) || !p.firsts.isFirst(at.String()) {
		return nil
	}
	if p.chance(40, "hangs", at.intent) {
		<-ctx.Done()
		return ctx.Err()
	}
	return errBad
}

// effects does one or two things once, and returns what they gave.
func (p *mortal) effects(ctx context.Context, t *oddTurn, at place, saw string) (said string, err error) {
	for i := range 1 + p.pick(2, "how many", at.where, at.intent, at.iteration) {
		name := fmt.Sprint(at, ", effect ", i)
		e := &effect{p, name, p.classOf(name), at.where == "intent" && p.retries(at.intent)}
		o := orchestrator.OnceOptions[string]{Class: e.class, Each: strconv.Itoa(i), Args: saw}
		if p.chance(20, "keyed", name) {
			o.Key = name
		}
		if o.Class == ledger.Verifiable {
			o.Verify, o.Settles = e.verify, time.Nanosecond // kills are clean
		}
		got, err := orchestrator.Once(ctx, t, "pay", e.pay, &o)
		if err != nil {
			return "", err
		}
		said += got
	}
	return said, nil
}

// An effect is something that a function does once.
type effect struct {
	*mortal
	name    string
	class   ledger.Class
	retries bool // the function is tried again if it fails
}

// pay does the effect. The process may die before or after.
func (e *effect) pay(_ context.Context, key string) (string, error) {
	if !e.survives("pay " + e.name) {
		return "", errDead
	}
	if e.retries && e.chance(20, "not done", e.name) && e.notes.firsts.isFirst("not done: "+e.name) {
		return "", ledger.NotDone(errBad)
	}
	value := "value of " + e.name
	if e.class != ledger.Pure {
		e.notes.pay(e.name, key, value, e.class == ledger.Idempotent)
	}
	lost := e.withSnapshots && e.class != ledger.Pure &&
		e.chance(15, "lost", e.name) && e.notes.firsts.isFirst("lost: "+e.name)
	if !e.survives("paid " + e.name) {
		return "", errDead
	}
	if lost {
		return "", errTimeout
	}
	return value, nil
}

// verify asks the world whether the effect with the key happened.
func (e *effect) verify(_ context.Context, key string) (value string, landed bool, err error) {
	value, landed = e.notes.landedAt(key)
	return value, landed, nil
}
