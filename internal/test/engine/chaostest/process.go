package chaostest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A process runs the bot over the network.
type process struct {
	simulation *simulation
	number     int
	bot        *engine
	heals      bool // its network is whole
	dead       bool // the simulation's mutex protects it
	// stopped is the step until which no message of the process is served.
	stopped int
}

// start starts a process. With heals its network is whole.
func (w *simulation) start(heals bool) *process {
	p := &process{simulation: w, number: w.started, heals: heals}
	w.started++
	o := w.plan.options(p.number, w.time.quantum)
	if !w.plan.volatile {
		o.Snapshots = snapshots{p}
	}
	bot, err := orchestrator.New(p.definition(), checkpoints{p}, &o)
	if err != nil {
		panic(err) // the plan is wrong
	}
	p.bot = bot
	return p
}

// another replaces a process by a new one.
func (w *simulation) another(p *process) {
	for i := range w.processes {
		if w.processes[i] == p {
			w.processes[i] = w.start(false)
			w.note("process %d takes the place of process %d", w.processes[i].number, p.number)
		}
	}
}

// kill ends a process. Its requests are lost or on their way. Its callers get no answer.
func (w *simulation) kill(p *process) {
	w.tally.Killed++
	w.note("process %d dies", p.number)
	w.mu.Lock()
	p.dead = true
	w.mu.Unlock()
	for _, c := range w.active() {
		if c.at == p {
			c.died, c.over = true, w.step
		}
	}
	for _, m := range w.waiting(func(m *message) bool { return m.from == p }) {
		if m.send != nil && m.answer == nil && !m.read && w.chance(500) {
			w.late = append(w.late, m)
		}
		w.reply(m, reply{err: errDead})
	}
	w.another(p)
}

// shutdown makes a process hand off its runs.
func (w *simulation) shutdown(p *process) {
	for _, c := range w.active() {
		if c.at == p {
			c.disturb()
		}
	}
	c := &call{kind: "Shutdown", at: p}
	w.begin(c, func(context.Context) answer {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return answer{what: "shut down", err: p.bot.Shutdown(ctx)}
	})
	w.another(p)
}

// stop stops a process for some steps. Meanwhile it gets no reply.
func (w *simulation) stop(p *process) {
	p.stopped = w.step + 5 + w.rng.IntN(60)
	w.note("process %d is stopped until step %d", p.number, p.stopped)
}

type callKey struct{}

// callOf returns the call of a context, or nil for a renewal.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// A fate says how much the caller knows of the turn.
type fate int

const (
	// unknown: the turn may settle, or be settled already.
	unknown fate = iota
	settled
	// refused: this call has left no run in flight.
	refused
	failed // the turn is over
)

// fateOf reads an error of Execute by the table in docs/guarantees.md.
func fateOf(err error) fate {
	e, ok := errors.AsType[*orchestrator.Error](err)
	switch {
	case err == nil:
		return settled
	case errors.Is(err, orchestrator.ErrIndeterminate), !ok:
		return unknown
	case errors.Is(err, orchestrator.ErrParked), errors.Is(err, orchestrator.ErrSuspended):
		if e.RunID != "" {
			return unknown
		}
		return refused
	case refusing[e.Op] && anyOf(err, refusals):
		return refused
	}
	return failed
}

var refusing = map[string]bool{"input": true, "claim": true, "drift": true, "begin": true, "adopt": true}

var refusals = []error{
	orchestrator.ErrBusy, orchestrator.ErrUnavailable, orchestrator.ErrInterrupted, orchestrator.ErrShuttingDown,
	orchestrator.ErrReentrant, orchestrator.ErrRequestReused, context.Canceled, context.DeadlineExceeded,
	errGone, errLost,
}

// expected are the errors that a call may return in a history.
var expected = append([]error{
	errBot, errDead,
	orchestrator.ErrIndeterminate, orchestrator.ErrParked, orchestrator.ErrNothingToResume, orchestrator.ErrAbandoned,
	lock.ErrFenced, lock.ErrLost, lock.ErrExpired, lock.ErrHandoff,
}, refusals...)

// stuck is the text of an error without a name: the engine waited in vain for a function of the bot.
const stuck = "a function ignored the end of its context"

func anyOf(err error, targets []error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
