package orchestrator

import (
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// A pump calls a handler for one event after the other, from a goroutine that lives while there are any. A handler that
// panics has had its event.
type pump struct {
	what    string // the handler is; for the log
	call    func(Event)
	engine  *engine
	handled atomic.Int64 // events
	gone    atomic.Bool  // no event is handed over any more
	slow    atomic.Bool  // a call has waited for the handler in vain: none waits until it has caught up

	mu     sync.Mutex // protects following fields
	events backlog
	lost   int           // events, since something waits
	busy   chan struct{} // closed when nothing waits any more; nil while nothing does
}

func (p *pump) push(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone.Load() {
		return
	}
	if !p.events.push(ev) {
		p.engine.dropped(p.what, ev.Session, p.lost)
		p.lost++
		return
	}
	if p.busy == nil {
		p.busy = make(chan struct{})
		go p.run()
	}
}

// idle reports whether all that was pushed so far is done.
func (p *pump) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.busy == nil
}

// empty returns what is closed when all that was pushed so far is done.
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

// leave hands no event over any more, and returns how many have waited in vain.
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
			p.engine.Logger.Warn("events are handled again: "+p.what+" has caught up", "dropped", p.lost)
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
		p.engine.Logger.Error("event handler panicked", "kind", string(ev.Kind), "session", ev.Session,
			p.engine.why(logtext.Private(err)))
	}
}
