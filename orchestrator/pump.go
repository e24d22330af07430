package orchestrator

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// A reporter tells operators of events that were dropped, and of handlers that panicked.
type reporter struct {
	log    *slog.Logger
	why    func(error) slog.Attr
	meters *meters
}

// dropped counts an event that found no room. before is how many were dropped since the last event that found room. If
// before is 0, dropped writes a log line.
func (r *reporter) dropped(what, session string, before int) {
	r.meters.drop(1)
	if before == 0 {
		r.log.Error("events dropped: "+what+" is too slow, or hangs", "session", session)
	}
}

// A pump calls a handler for one event after the other. Its goroutine lives while there are events. If a handler
// panics, it has had its event.
type pump struct {
	what    string // names the handler in logs
	call    func(Event)
	report  *reporter
	handled atomic.Int64 // events
	gone    atomic.Bool  // no more events are handed over

	// slow says that a call has waited for the handler in vain. No call waits until the handler has caught up.
	slow atomic.Bool

	mu     sync.Mutex // protects following fields
	events backlog
	lost   int // events dropped since the handler last caught up

	// busy is closed when no event waits any more. It is nil while no event waits.
	busy chan struct{}
}

func (p *pump) push(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone.Load() {
		return
	}
	if !p.events.push(ev) {
		p.report.dropped(p.what, ev.Session, p.lost)
		p.lost++
		return
	}
	if p.busy == nil {
		p.busy = make(chan struct{})
		go p.run()
	}
}

// idle reports whether the handler has had all events.
func (p *pump) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy == nil
}

// empty returns a channel that is closed when no event waits any more.
func (p *pump) empty() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy != nil {
		return p.busy
	}
	done := make(chan struct{})
	close(done)
	return done
}

// leave stops the handing over of events, and returns how many were still waiting.
func (p *pump) leave() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone.Store(true)
	return p.events.discard()
}

func (p *pump) run() {
	finished := false
	defer func() {
		if !finished { // the handler has ended its goroutine
			go p.run()
		}
	}()
	for {
		ev, ok := p.next()
		if !ok {
			finished = true
			return
		}
		p.handle(ev)
	}
}

func (p *pump) next() (Event, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ev, ok := p.events.pop()
	if !ok {
		close(p.busy)
		if p.lost > 0 {
			p.report.log.Warn("events are handled again: "+p.what+" has caught up", "dropped", p.lost)
		}
		p.busy, p.lost = nil, 0
		p.slow.Store(false)
	}
	return ev, ok
}

func (p *pump) handle(ev Event) {
	defer p.handled.Add(1)
	if p.gone.Load() {
		return
	}
	if err := protect(func() error { p.call(ev); return nil }); err != nil {
		p.report.log.Error("event handler panicked", "kind", string(ev.Kind), "session", ev.Session, "run", ev.RunID,
			p.report.why(logtext.Private(err)), "stack", stackOf(err))
	}
}
