package enginetest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// State logs each change with its run and process. A turn that is applied by half, or twice, shows in the log.
type State struct{ Log, B, C []string }

// unsigned returns s without the names of the processes.
func (s State) unsigned() State {
	cut := func(lines []string) (all []string) {
		for _, line := range lines {
			line, _, _ = strings.Cut(line, " by ")
			all = append(all, line)
		}
		return all
	}
	return State{cut(s.Log), cut(s.B), cut(s.C)}
}

// Short names.
type (
	Turn   = orchestrator.Turn[State]
	Result = orchestrator.Result[State]
	next   = orchestrator.Next
	input  = orchestrator.Input
	engine = orchestrator.Orchestrator[State]
)

// A bot says which functions the turns of a trial have.
type bot struct {
	iterate  bool // a, b beside c, d; else a
	fan      bool // Route, then b beside c
	items    bool // b and c are items of e, instead of intents
	bare     bool // without Begin
	deliver  bool
	volatile bool // without a snapshot store
	ledger   bool // with a ledger
	buys     bool // a does effects; needs a ledger
	logs     bool // with a turn log, in which a records a phase
}

// short is an input that only Route answers.
const short = "nothing else"

// No lease of this length ends while a test runs.
const hour = time.Hour

var errFailing = errors.New("this intent fails")

// definition returns the definition of the bot for this process.
func (p *process) definition() orchestrator.Definition[State] {
	d := orchestrator.Definition[State]{
		Name:    p.orchestrator,
		Intents: orchestrator.Intents[State]{"a": p.intent("a", appendLog)},
		Route:   p.route,
	}
	if !p.bot.bare {
		d.Begin = p.begin
	}
	b := p.intent("b", func(s *State, line string) { s.B = append(s.B, line) })
	c := p.intent("c", func(s *State, line string) { s.C = append(s.C, line) })
	switch {
	case p.bot.fan:
		d.Intents = orchestrator.Intents[State]{"b": b, "c": c}
	case p.bot.iterate:
		a := d.Intents["a"]
		a.Next = orchestrator.To("b", "c")
		d.Intents = orchestrator.Intents[State]{"a": a, "b": b, "c": c, "d": p.intent("d", appendLog)}
		d.Iterate, d.Evaluate = true, p.evaluate
	}
	if p.bot.items {
		delete(d.Intents, "b")
		delete(d.Intents, "c")
		runs := orchestrator.Intents[State]{"b": b, "c": c}
		if a, iterates := d.Intents["a"]; iterates {
			a.Next, a.Then = next{}, func(context.Context, *Turn) (next, error) { return p.branches(), nil }
			d.Intents["a"] = a
		}
		d.Intents["e"] = orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) error {
			return runs[orchestrator.Item[string](t)].Run(ctx, t)
		}}
	}
	if p.bot.deliver {
		d.Deliver = p.deliver
	}
	return d
}

// branches is the decision to run b beside c.
func (p *process) branches() next {
	if p.bot.items {
		return orchestrator.ForEach("e", "b", "c")
	}
	return orchestrator.To("b", "c")
}

// wants returns the state that a settled turn makes of s.
func (b bot) wants(s State, run, text string) State {
	s.Log = slices.Clip(s.Log)
	if !b.bare {
		s.Log = append(s.Log, run+" says "+text)
	}
	if b.fan {
		s.Log = append(s.Log, run+" routes")
	}
	if text == short {
		return s
	}
	if !b.fan {
		s.Log = append(s.Log, run+" a")
	}
	if b.iterate {
		s.Log = append(s.Log, run+" d")
	}
	if b.iterate || b.fan {
		s.B = append(slices.Clip(s.B), run+" b")
		s.C = append(slices.Clip(s.C), run+" c")
	}
	return s
}

// intents returns the intents that a settled turn has run.
func (b bot) intents(text string) []string {
	if text == short {
		return nil
	}
	switch {
	case b.iterate:
		return []string{at("a", 0), at("b", 1), at("c", 1), at("d", 2)}
	case b.fan:
		return []string{at("b", 0), at("c", 0)}
	}
	return []string{at("a", 0)}
}

func appendLog(s *State, line string) { s.Log = append(s.Log, line) }

func (p *process) begin(ctx context.Context, t *Turn) error {
	p.prepares(t.RunID, t.Index)
	return p.function(ctx, t.RunID, "Begin", func() error {
		appendLog(&t.State, t.RunID+" says "+t.Input.Text+" by "+p.name)
		return nil
	})
}

func (p *process) intent(name string, apply func(*State, string)) orchestrator.Intent[State] {
	return orchestrator.Intent[State]{Run: func(ctx context.Context, t *Turn) (err error) {
		if p.dead() {
			return errDead
		}
		p.functions.Add(1) // it has several points, and may go on after its call
		defer p.functions.Done()
		p.starts(t.RunID, t.Iteration, name)
		switch name {
		case "a":
			if p.bot.buys {
				if err := p.buys(ctx, t); err != nil {
					return err
				}
			}
			if p.bot.logs {
				if err := p.model(ctx, t); err != nil {
					return err
				}
			}
		case "b":
			defer func() { p.branchRan(t.RunID, err) }()
		case "c":
			if err := p.afterBranch(ctx, t.RunID); err != nil {
				return err
			}
		}
		return p.function(ctx, t.RunID, name, func() error {
			p.ran(t.RunID, t.Iteration, name)
			apply(&t.State, t.RunID+" "+name+" by "+p.name)
			if p.failing == name {
				return errFailing
			}
			return nil
		})
	}}
}

func (p *process) route(ctx context.Context, t *Turn) (said next, err error) {
	p.starts(t.RunID, t.Iteration, "Route")
	err = p.function(ctx, t.RunID, "Route", func() error {
		said = orchestrator.To("a")
		if p.bot.fan {
			said = p.branches()
			appendLog(&t.State, t.RunID+" routes by "+p.name)
		}
		if t.Input.Text == short {
			said = orchestrator.End
		}
		return nil
	})
	return said, err
}

// evaluate reassigns after the branches, ends the turn after d, and decides nothing after a.
func (p *process) evaluate(ctx context.Context, t *Turn) (said next, err error) {
	p.starts(t.RunID, t.Iteration, "Evaluate")
	err = p.function(ctx, t.RunID, "Evaluate", func() error {
		switch t.Iteration {
		case 1:
			said = orchestrator.To("d")
		case 2:
			said = orchestrator.End
		}
		return nil
	})
	return said, err
}

func (p *process) deliver(ctx context.Context, res *Result) error {
	return p.function(ctx, res.RunID, "Deliver", func() error {
		p.hands(res)
		return nil
	})
}

// A gate makes c wait until b is saved or can never be saved, so that the points of a fan-out have an order.
type gate struct {
	begun bool // b has begun in this process
	ran   bool // b has run
	// unaware says that the process could not know of a new owner when b or c started.
	unaware bool
	open    chan struct{}
	once    sync.Once
}

// unsaved is the time after which a branch that has run should have been saved.
const unsaved = 5 * time.Second

func (p *process) gate(id string) *gate {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := p.gates[id]
	if g == nil {
		g = &gate{open: make(chan struct{})}
		p.gates[id] = g
	}
	return g
}

func (g *gate) lift() { g.once.Do(func() { close(g.open) }) }

func (p *process) afterBranch(ctx context.Context, id string) error {
	// If the process was stopped before it began this fan-out, another owner may have replaced the parts that it found.
	if p.branchFound(id) || p.isUnaware() && !p.branchBegun(id) {
		return nil
	}
	select {
	case <-p.gate(id).open:
		return nil
	case <-time.After(unsaved):
		p.accuse(Saved, "b has run and is not saved while c is under way")
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// branchStarts notes that b or c starts. It reports whether the process could not know of a new owner when this one or
// the other one started: they start at the same time, and the save of one cannot stop the other.
func (p *process) branchStarts(id, name string) (unaware bool) {
	g := p.gate(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	g.begun = g.begun || name == "b"
	g.unaware = g.unaware || p.unaware
	return g.unaware
}

func (p *process) branchBegun(id string) bool {
	g := p.gate(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return g.begun
}

func (p *process) branchRan(id string, err error) {
	g := p.gate(id)
	p.mu.Lock()
	g.ran = true
	p.mu.Unlock()
	if err != nil {
		g.lift()
	}
}

func (p *process) branchSaved(id string) {
	g := p.gate(id)
	p.mu.Lock()
	ran := g.ran
	p.mu.Unlock()
	if ran {
		g.lift()
	}
}

// quiet is a log that discards everything.
var quiet = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1}))

// start starts the process.
func (p *process) start(how orchestrator.OnInterrupted) (*engine, error) {
	o := orchestrator.Options{
		OnInterrupted: how, Logger: quiet,
		Limits: orchestrator.Limits{
			SettleTimeout: p.settle, LeaseTTL: p.ttl, DeadAfter: p.deadAfter, LockWait: 10 * time.Second,
		},
	}
	if !p.isVolatile() {
		o.Snapshots = snapshots{p}
	}
	if p.bot.ledger {
		o.Ledger, o.Effects.Linger = effects{p}, time.Hour // no clock says where the points are
	}
	if p.bot.logs {
		o.TurnLog = phases{p}
	}
	var store checkpoint.Store = checkpoints{p}
	if p.deadAfter > 0 {
		store = beats{checkpoints{p}}
	}
	return orchestrator.New(p.definition(), store, &o)
}
