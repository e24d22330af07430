package orchestratortest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// ErrDied is the error of the functions of a dead process, and of its stores.
var ErrDied = errors.New("orchestratortest: the process is dead")

// A Process is one process of a bot.
type Process[S any] struct {
	// Bot is the bot, with the functions and stores of this process. Its calls return errors once the process is dead.
	// They mean nothing: a caller in a process that dies hears nothing.
	Bot *orchestrator.Orchestrator[S]

	world *World
	life  *life

	mu     sync.Mutex // protects following fields
	events []orchestrator.Event

	// flush is closed when the event with the request id mark has been heard.
	flush chan struct{}
	mark  string
}

// Start starts a process of a bot in w. The bot is New of d and o, over the stores and the ledger of w. If o has a
// TurnLog, the bot has the one of w. Unless o has a Logger, it logs nothing. Start panics if New refuses d or o.
func Start[S any](w *World, d orchestrator.Definition[S], o *orchestrator.Options) *Process[S] {
	w.open()
	all := orchestrator.Options{}
	if o != nil {
		all = *o
	}
	if all.Logger == nil {
		all.Logger = slog.New(slog.DiscardHandler)
	}
	l := newLife()
	all.Snapshots, all.Ledger = &snapshots{w.Snapshots, l}, &effects{w.Ledger, l}
	all.TurnLog = w.logFor(l, all.TurnLog)
	p := &Process[S]{world: w, life: l}
	bot, err := orchestrator.New(watched(l, d), w.seenBy(l), l.options(&all))
	if err != nil {
		panic(err)
	}
	p.Bot = bot
	bot.Subscribe(p.hear)
	return p
}

// DieBefore kills the process when the step begins for the nth time, counted from 1 and from now. The step does not
// happen. An unknown step panics.
func (p *Process[S]) DieBefore(step string, n int) { p.life.plan(step, n, true) }

// DieAfter kills the process when the step has ended for the nth time, counted from 1 and from now. What the step did
// is done, and the process learns nothing of it. An unknown step panics.
func (p *Process[S]) DieAfter(step string, n int) { p.life.plan(step, n, false) }

// Kill kills the process now. The contexts of its functions end.
func (p *Process[S]) Kill() { p.life.kill() }

// Dead reports whether the process is dead.
func (p *Process[S]) Dead() bool { return p.life.isDead() }

// Expire ends the leases of a dead process at once, as time does. Use it in tests that do not run under synctest. It
// panics if the process lives.
func (p *Process[S]) Expire(ctx context.Context) error {
	if !p.Dead() {
		panic("orchestratortest: Expire of a process that lives")
	}
	p.life.passed()
	var all []error
	for _, lease := range p.life.takeLeases() {
		all = append(all, p.world.Checkpoints.Mark(ctx, lease, checkpoint.Marks{Release: true}))
	}
	return errors.Join(all...)
}

// Ran returns the functions of the bot that have begun in this process, in the order in which they began. Each attempt
// of an intent is one.
func (p *Process[S]) Ran() []string { return p.life.names() }

// Events returns the events of this process, the oldest first.
func (p *Process[S]) Events() []orchestrator.Event {
	p.sync()
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.events)
}

// Text returns what the bot has emitted in this process: the tokens, in their order.
func (p *Process[S]) Text() string {
	var b strings.Builder
	for _, ev := range p.Events() {
		b.WriteString(ev.Delta)
	}
	return b.String()
}

func (p *Process[S]) hear(ev orchestrator.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ev.Session != "":
		p.events = append(p.events, ev)
	case ev.RequestID == p.mark:
		close(p.flush)
	}
}

// sync waits until all events so far were heard. A call without a session is refused, and the event of that comes after
// all others.
func (p *Process[S]) sync() {
	heard, mark := make(chan struct{}), rand.Text()
	p.mu.Lock()
	p.flush, p.mark = heard, mark
	p.mu.Unlock()
	_, _ = p.Bot.Execute(context.Background(), "", orchestrator.Input{RequestID: mark}, nil)
	<-heard
}
