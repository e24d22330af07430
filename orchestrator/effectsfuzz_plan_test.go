package orchestrator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An effectPlan is a shop whose bot pays for orders, as a seed chooses it. A choice depends on the seed and on what it
// is for, and on nothing else.
type effectPlan struct {
	dice *plan

	class       ledger.Class
	keyed, each bool

	// tool puts the bot behind a tool of a parent. fans runs the call in a branch beside another.
	tool, fans bool

	// shape is "single", "fan", "items" or "iterate". decider is "route", or "first" or "next" if the shape has it.
	shape, decider string
	orders         []string

	tries, parentTries int
	timeout            time.Duration // of an intent that pays; 0 means none
	parentTimeout      time.Duration

	// trouble is how many calls of the vendor, and how many runs of a body, may go wrong for each order. kills is how
	// many processes may die.
	trouble, kills int
	renames        bool // deploys have other names of intents
	abandons       bool
}

func newEffectPlan(seed uint64) *effectPlan {
	d := &plan{seed: seed}
	p := &effectPlan{dice: d, orders: []string{"shoes"}, decider: "route"}
	p.class = []ledger.Class{ledger.Ask, ledger.Idempotent, ledger.Verifiable}[d.pick(3, "class")]
	p.keyed, p.each = d.chance(40, "keyed"), d.chance(30, "each")
	p.tool = d.chance(35, "tool")
	p.fans = p.tool && d.chance(40, "parent fans")
	p.shape = []string{"single", "single", "fan", "items", "iterate"}[d.pick(5, "shape")]
	if p.shape != "single" {
		p.orders = append(p.orders, "boots")
	}
	switch {
	case p.shape == "single" && d.chance(50, "first"):
		p.decider = "first"
	case p.shape == "iterate" && d.chance(50, "next"):
		p.decider = "next"
	}
	p.tries, p.parentTries = 1+d.pick(3, "tries"), 1+d.pick(2, "parent tries")
	p.timeout = []time.Duration{0, 5 * time.Second, 5 * time.Second, 20 * time.Second}[d.pick(4, "timeout")]
	p.parentTimeout = []time.Duration{0, 0, 8 * time.Second}[d.pick(3, "parent timeout")]
	p.trouble, p.kills = d.pick(4, "trouble"), d.pick(4, "kills")
	p.renames, p.abandons = d.chance(40, "renames"), d.chance(15, "abandons")
	return p
}

func (p *effectPlan) String() string {
	return fmt.Sprintf("%s, key %t, each %t, %s by %s, tries %d, timeout %v; tool %t, fans %t, tries %d, timeout %v; "+
		"trouble %d, kills %d, renames %t, abandons %t", p.class, p.keyed, p.each, p.shape, p.decider, p.tries, p.timeout,
		p.tool, p.fans, p.parentTries, p.parentTimeout, p.trouble, p.kills, p.renames, p.abandons)
}

// bothNames is a deploy that has the intents of all others, and whose functions ask for every effect.
const bothNames = 99

// bases returns the names that the intents of a deploy begin with.
func (p *effectPlan) bases(deploy int) []string {
	all := [][]string{{"pay"}, {"alt"}, {"pay", "alt"}, {"pay", "alt"}}
	switch {
	case deploy == bothNames:
		return all[2]
	case !p.renames && p.dice.chance(30, "one name"):
		return all[0]
	case !p.renames:
		return all[2]
	}
	return all[p.dice.pick(len(all), "bases", deploy)]
}

// silent reports whether the functions of a deploy do not ask for an effect.
func (p *effectPlan) silent(deploy int) bool {
	return deploy != 0 && deploy != bothNames && p.renames && p.dice.chance(25, "silent", deploy)
}

// A payState is the state of the bots.
type payState struct {
	Paid  map[string]string
	Other string
	Rate  float64
}

type (
	payTurn = orchestrator.Turn[payState]
	payBot  = orchestrator.Orchestrator[payState]
	payDef  = orchestrator.Definition[payState]
)

// definition returns the bot that pays, as the deploy of p has it.
func (p *effectProcess) definition() payDef {
	plan := p.w.plan
	bases := plan.bases(p.deploy)
	d := payDef{
		Name: "shop", Iterate: plan.shape == "iterate", Intents: make(orchestrator.Intents[payState]), Merge: mergePaid,
	}
	for _, base := range bases {
		policy := retry.Fixed(plan.tries, time.Second)
		if plan.shape == "single" || plan.shape == "items" {
			d.Intents[base] = orchestrator.Intent[payState]{Retry: policy, Timeout: plan.timeout, Run: p.pays("")}
			continue
		}
		for i, order := range plan.orders {
			in := orchestrator.Intent[payState]{Retry: policy, Timeout: plan.timeout, Run: p.pays(order)}
			if plan.decider == "next" && i == 0 {
				in.Next = orchestrator.To(base + plan.orders[1])
			} else if plan.decider == "next" {
				in.Next = orchestrator.End
			}
			d.Intents[base+order] = in
		}
	}
	if plan.decider == "first" {
		d.First = bases[plan.dice.pick(len(bases), "first of", p.deploy)]
	} else {
		d.Route = p.route
	}
	return d
}

func mergePaid(base payState, branches []payState) (payState, error) {
	if base.Paid == nil {
		base.Paid = make(map[string]string)
	}
	for _, b := range branches {
		maps.Copy(base.Paid, b.Paid)
		base.Other += b.Other
	}
	return base, nil
}

// route decides, and may decide otherwise each time.
func (p *effectProcess) route(_ context.Context, t *payTurn) (Next, error) {
	plan, n := p.w.plan, p.w.count("route")
	bases := plan.bases(p.deploy)
	pick := func(order string) string { return bases[plan.dice.pick(len(bases), "route", n, order)] }
	one := plan.orders[0]
	two := plan.orders[len(plan.orders)-1]
	if plan.dice.chance(50, "turned", n) && plan.shape != "iterate" {
		one, two = two, one
	}
	var next Next
	switch plan.shape {
	case "single":
		next = orchestrator.To(pick(one))
	case "items":
		next = orchestrator.ForEach(pick(one), one, two)
	case "fan":
		next = orchestrator.To(pick(one)+one, pick(two)+two)
	default:
		if next = orchestrator.End; t.Iteration < 2 {
			next = orchestrator.To(pick(plan.orders[t.Iteration]) + plan.orders[t.Iteration])
		}
	}
	p.w.tell("%v routes to %v", p, next)
	return next, nil
}

// What a body does besides calling Once.
const (
	bodyReturns   = "returns what Once returns"
	bodyOther     = "returns another error"
	bodySwallows  = "swallows the error"
	bodyLeaves    = "leaves a goroutine behind"
	bodySpoils    = "spoils the state"
	bodySpoilsToo = "swallows the error and spoils the state"
	bodyPanics    = "panics after Once"
	bodyFails     = "fails after Once"
)

var bodies = []string{
	bodyReturns, bodyReturns, bodyReturns, bodyOther, bodySwallows, bodyLeaves, bodySpoils, bodySpoilsToo, bodyPanics,
	bodyFails,
}

var errConfused = errors.New("the model is confused")

// pays returns the function of an intent that pays for an order, or for its item.
func (p *effectProcess) pays(order string) func(context.Context, *payTurn) error {
	return func(ctx context.Context, t *payTurn) error {
		plan, order, how := p.w.plan, order, bodyReturns
		switch {
		case t.Item != nil:
			order = orchestrator.Item[string](t)
		case order == "":
			order = plan.orders[0]
		}
		n := p.w.count("body " + order)
		time.Sleep(time.Duration(plan.dice.pick(1e6, "body starts", order, n)))
		if n < plan.trouble {
			how = bodies[plan.dice.pick(len(bodies), "body", order, n)]
		}
		intent := p.w.intentOf(t, order)
		if plan.silent(p.deploy) {
			p.w.tell("%v runs %s, which does not ask for the payment", p, intent)
			return nil
		}
		p.w.tell("%v runs %s, which %s", p, intent, how)
		p.asks(t.RunID, order)
		if how == bodyLeaves {
			return p.leaves(ctx, t, order, n)
		}
		receipt, err := p.once(ctx, t, order)
		return p.ends(t, order, how, receipt, err)
	}
}

// ends is the end of a function that has called Once.
func (p *effectProcess) ends(t *payTurn, order, how, receipt string, err error) error {
	t.State.Paid = maps.Clone(t.State.Paid)
	if t.State.Paid == nil {
		t.State.Paid = make(map[string]string)
	}
	t.State.Paid[order] = receipt
	switch {
	case how == bodyPanics:
		panic("after Once")
	case how == bodyFails, how == bodyOther && err != nil:
		return errConfused
	case how == bodySpoils && err == nil, how == bodySpoilsToo:
		t.State.Rate = math.NaN()
		return nil
	case how == bodySwallows:
		if err != nil {
			p.swallows(t.RunID, order)
		}
		return nil
	}
	return err
}

// leaves is a function that does not wait for its payment for as long as that takes.
func (p *effectProcess) leaves(ctx context.Context, t *payTurn, order string, n int) error {
	done := make(chan error, 1)
	go func() {
		defer close(done)
		_, err := p.once(ctx, t, order)
		done <- err
	}()
	select {
	case err, ok := <-done:
		if !ok { // by Goexit
			return errConfused
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(p.w.plan.dice.pick(3e9, "leaves", order, n))):
	}
	if p.w.plan.dice.chance(30, "leaves and returns nil", order, n) {
		p.swallows(t.RunID, order)
		return nil
	}
	return errConfused
}

// once is Once of a payment.
func (p *effectProcess) once(ctx context.Context, t *payTurn, order string) (string, error) {
	plan := p.w.plan
	o := orchestrator.OnceOptions[string]{Class: plan.class, Args: order}
	if plan.keyed {
		o.Key = order
	}
	if plan.each {
		o.Each = order
	}
	if plan.class == ledger.Verifiable {
		o.Settles = cmp.Or(p.w.cures.settles, slowVendor)
		o.Verify = func(_ context.Context, key string) (string, bool, error) { return p.finds(key) }
	}
	receipt, err := orchestrator.Once(ctx, t, "pay", func(ctx context.Context, key string) (string, error) {
		return p.calls(ctx, key, order)
	}, &o)
	if err == nil {
		p.gets(t.RunID, order)
	}
	return receipt, err
}

// parent returns the bot that has the shop as a tool.
func (p *effectProcess) parent() payDef {
	plan := p.w.plan
	d := payDef{Name: "parent", Merge: mergePaid, Intents: orchestrator.Intents[payState]{
		"ask": {Run: p.asksShop, Retry: retry.Fixed(plan.parentTries, time.Second), Timeout: plan.parentTimeout},
		"other": {Run: func(_ context.Context, t *payTurn) error {
			if n := p.w.count("other"); n < plan.trouble && plan.dice.chance(25, "other fails", n) {
				return errAway
			}
			t.State.Other += "."
			return nil
		}},
	}}
	d.Route = func(context.Context, *payTurn) (Next, error) {
		if plan.fans {
			return orchestrator.To("ask", "other"), nil
		}
		return orchestrator.To("ask"), nil
	}
	return d
}

// mostAsked is how often the parent may call the tool. Pauses bound the calls of a play to fewer.
const mostAsked = 300

// asksShop is the function of the parent that calls the shop.
func (p *effectProcess) asksShop(ctx context.Context, t *payTurn) error {
	n := p.w.count("ask")
	if n > mostAsked {
		p.w.goesRound(p)
		return errDead
	}
	called, args := ctx, []byte(`{"input":"pay"}`)
	id, tool := "1", p.shop.Tool("pay", "", nil, nil)
	if p.w.cures.strips {
		session := func(context.Context) (string, error) { return "s/" + t.RunID, nil }
		var cancel context.CancelFunc
		called, cancel = context.WithCancel(context.Background())
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		id, tool = t.RunID, p.shop.Tool("pay", "", nil, session)
	}
	reply, err := tool.Call(called, id, args)
	p.w.tell("%v: the tool says %q, %v", p, reply, brief(err))
	if err != nil && n < p.w.plan.trouble && p.w.plan.dice.chance(30, "parent returns another error", n) {
		return errConfused
	}
	if err == nil && n < p.w.plan.trouble && p.w.plan.dice.chance(15, "parent fails", n) {
		return errConfused
	}
	t.State.Other = reply
	return err
}

// effectCures says which cures of the engine are taken out. The zero value takes out none.
type effectCures struct {
	snapshots func(snapshot.Store) snapshot.Store
	ledger    func(ledger.Ledger) ledger.Ledger
	settles   time.Duration // of OnceOptions; 0 means longer than the vendor takes
	strips    bool          // a tool is called without the turn
}
