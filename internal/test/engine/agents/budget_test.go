package agents_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// budgetSeedEnv names the variable with the seed of one session.
const budgetSeedEnv = "HOLDFAST_BUDGET_SEED"

// Sessions have a budget, and a thousand of their processes die, anywhere. Their models ask for tools and for up
// to three other agents at once, some of which wait for a person. What all calls of models have cost together, those
// included whose reply was lost with the process, is never more than the budget and one call.
//
// A process dies in memory: from then on its stores refuse everything, and another agent on the same stores goes on.
func TestBudget(t *testing.T) {
	first, kills := uint64(1), 1000
	if fixed := os.Getenv(budgetSeedEnv); fixed != "" {
		var err error
		if first, err = strconv.ParseUint(fixed, 10, 64); err != nil {
			t.Fatal(err)
		}
		kills = 1
	}
	died, over, lost, seed := 0, 0, 0, first
	for ; died < kills && seed < first+4*uint64(kills); seed++ {
		synctest.Test(t, func(t *testing.T) {
			p := newPurse(seed)
			p.play(t)
			if p.dead {
				died++
			}
			lost += p.lost
			if p.bill > p.most {
				over++
			}
			if p.bill > p.most+p.price {
				t.Errorf("seed %d: calls of %v have cost %v of %v: %s", seed, p.price, p.bill, p.most, p.history)
			}
		})
	}
	t.Logf("%d sessions, %d kills, %d of them lost a reply; %d sessions are over their budget, by one call at most",
		seed-first, died, lost, over)
	if died < kills {
		t.Errorf("only %d processes died", died)
	}
}

// A purse is a session with a budget.
type purse struct {
	rng         *rand.Rand
	st          agent.Stores
	most, price float64
	at          int  // the call of a store, or of a model, at which the process dies
	after       bool // its answer

	mu      sync.Mutex // protects following fields
	calls   int
	dead    bool
	bill    float64
	lost    int
	history []string
}

func newPurse(seed uint64) *purse {
	r := rand.New(rand.NewPCG(seed, 0))
	most := 1 + r.IntN(12)
	return &purse{
		rng: r, st: agent.InMemory(), price: 1, most: float64(most), at: 1 + r.IntN(10*most), after: r.IntN(2) == 0,
	}
}

// errDead is what a dead process gets of its stores: a verdict, so that it ends at once.
var errDead = fmt.Errorf("the process is dead: %w", lock.ErrFenced)

// around makes a call of a process that may die before or after it. first says that it is the process that dies.
func (p *purse) around(first bool) faulttest.Around {
	if !first {
		return func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error { return next(ctx) }
	}
	return func(ctx context.Context, _ faulttest.Call, next func(context.Context) error) error {
		before, after := p.arrives()
		if before {
			return errDead
		}
		err := next(ctx)
		if after {
			return errDead
		}
		return err
	}
}

// arrives counts a call of the process that dies. It says whether the process is dead before it, and after it.
func (p *purse) arrives() (before, after bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return true, true
	}
	p.calls++
	p.dead = p.calls == p.at
	return p.dead && !p.after, p.dead
}

// ask is a call of a model. It returns how the reply of the model goes.
func (p *purse) ask(who string, first bool, kinds int) (kind int, err error) {
	if first {
		if before, _ := p.arrives(); before {
			return 0, errDead
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bill += p.price
	p.history = append(p.history, who)
	if first && p.dead {
		p.lost++
		return 0, errDead
	}
	return p.rng.IntN(kinds), nil
}

// model returns a model that asks for calls at random.
func (p *purse) model(who string, first bool, replies ...[]message.Block) agent.ModelFunc {
	return func(context.Context, agent.Request, func(string)) (agent.Reply, error) {
		kind, err := p.ask(who, first, len(replies))
		if err != nil {
			return agent.Reply{}, err
		}
		m := message.Assistant(who)
		m.Blocks = append(m.Blocks, replies[kind]...)
		return agent.Reply{Message: m, Usage: orchestrator.Usage{Cost: p.price}}, nil
	}
}

// spawn starts a process. The last agent is the child of the other.
func (p *purse) spawn(t *testing.T, first bool) *agent.Agent[none] {
	t.Helper()
	st := p.st
	around := p.around(first)
	st.Checkpoints, st.Ledger = faulttest.Checkpoints(st.Checkpoints, around), faulttest.Ledger(st.Ledger, around)
	st.Snapshots = faulttest.Joined(st.Snapshots, p.st.Checkpoints, nil, around)
	st.Transcript, st.Inbox = faulttest.Transcripts(st.Transcript, around), faulttest.Inbox(st.Inbox, around)
	pay := agent.Effect[order, string]{
		Name: "pay", Class: ledger.Idempotent, Approve: func(o order) bool { return o.Order == "large" },
		Run: func(context.Context, string, order) (string, error) { return "paid", nil },
	}.Tool()
	small, large := call("", "pay", `{"order":"small"}`), call("", "pay", `{"order":"large"}`)
	child := call("", payer, `{"input":"pay"}`)
	o := &orchestrator.Options{Logger: quiet}
	build := func(d agent.Definition[none]) *agent.Agent[none] {
		a, err := agent.New(d, st, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = a.Bot().Shutdown(context.WithoutCancel(t.Context())) })
		return a
	}
	other := build(agent.Definition[none]{
		Name: payer, Tools: []agent.Tool{pay},
		Model: p.model(payer, first, nil, []message.Block{small}, []message.Block{small}, []message.Block{large}),
	})
	return build(agent.Definition[none]{
		Name: boss, MaxCost: p.most, Tools: []agent.Tool{pay, agent.ChildTool(other, "pays")},
		Model: p.model(boss, first, nil, []message.Block{small, large}, []message.Block{child},
			[]message.Block{child, child}, []message.Block{child, child, child}),
	})
}

// play says things until the budget is used up.
func (p *purse) play(t *testing.T) {
	a, first := p.spawn(t, true), true
	for turn, repeats := 0, 0; ; {
		o, err := p.turn(t.Context(), a, fmt.Sprint("r", turn))
		switch {
		case err == nil && o.Reason == agent.Budget:
			return
		case err == nil:
			turn, repeats = turn+1, 0
		case first && p.isDead():
			a, first = p.spawn(t, false), false
		case errors.Is(err, orchestrator.ErrIndeterminate), errors.Is(err, orchestrator.ErrBusy):
			repeats++
		default:
			t.Fatal(err)
		}
		if turn > 40 || repeats > 40 {
			t.Fatalf("after %d turns and %d repeats the budget is not used up: %s", turn, repeats, p.history)
		}
	}
}

// turn says something, and approves until nothing waits any more.
func (p *purse) turn(ctx context.Context, a *agent.Agent[none], id string) (s agent.State[none], err error) {
	_, err = a.Say(ctx, "s", orchestrator.Input{RequestID: id, Text: "go"}, nil)
	for err == nil {
		if s, _, err = a.Get(ctx, "s"); err != nil {
			break
		}
		if s.Status == agent.Active {
			_, err = a.Bot().Resume(ctx, "s", nil)
			continue
		}
		if s.Status != agent.Paused {
			break
		}
		for _, o := range s.Open {
			for _, w := range o.Waits {
				if _, given := s.AnsweredBy(w.Call.ID); !given && err == nil {
					_, err = a.Answer(ctx, "s", w.Call.ID, agent.Approve("desk"))
				}
			}
		}
	}
	return s, err
}

func (p *purse) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}
