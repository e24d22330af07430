package orchestrator

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// handlers are those that Subscribe was given.
type handlers struct {
	mu  sync.Mutex // serializes changes
	all atomic.Pointer[[]*handler]
}

type handler struct {
	call func(Event)
	gone atomic.Bool
}

func (h *handlers) list() []*handler {
	if all := h.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (h *handlers) change(f func([]*handler) []*handler) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := f(slices.Clone(h.list()))
	h.all.Store(&all)
}

// Subscribe calls h for every event of this process, in the order of each turn. It must not block: a call waits for its
// handlers before it returns, though not for longer than Limits.SettleTimeout, and the turn does not wait at all.
func (o *Orchestrator[S]) Subscribe(h func(Event)) (unsubscribe func()) {
	sub := &handler{call: h}
	o.handlers.change(func(all []*handler) []*handler { return append(all, sub) })
	return func() {
		sub.gone.Store(true)
		o.handlers.change(func(all []*handler) []*handler {
			return slices.DeleteFunc(all, func(h *handler) bool { return h == sub })
		})
	}
}

// A call is one of a user's: its options, and who hears of its events.
type call struct {
	engine  *engine
	session string
	force   bool
	alone   bool        // nobody waits for the outcome: what fails is tried again
	watch   func(Event) // of a Stream; it never blocks

	mu     sync.Mutex // protects following fields
	ended  bool       // a terminal event was emitted for the turn under way
	own    *pump      // of CallOptions.OnEvent; nil: none
	others map[*handler]*pump
}

func (e *engine) newCall(session string, c *CallOptions) *call {
	k := &call{engine: e, session: session}
	if c == nil {
		return k
	}
	k.force = c.Force
	if c.OnEvent != nil {
		k.own = &pump{call: c.OnEvent, log: e.Logger}
	}
	return k
}

// heard reports whether anybody listens.
func (k *call) heard() bool {
	return k.own != nil || k.watch != nil || len(k.engine.handlers.list()) > 0
}

// emit hands an event to whoever listens, without waiting for them.
func (k *call) emit(ev Event) {
	k.engine.meters.ended(ev)
	subscribers := k.engine.handlers.list()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case ev.Kind == TurnStarted, ev.Kind == TurnResumed:
		k.ended = false
	case ev.Kind.outcome() != "":
		k.ended = true
	}
	if len(subscribers) == 0 && k.own == nil && k.watch == nil {
		return
	}
	ev.Session, ev.At = k.session, time.Now()
	ev.Next.Intents = slices.Clone(ev.Next.Intents)
	if k.watch != nil {
		k.watch(ev)
	}
	if k.own != nil {
		k.own.push(ev)
	}
	for _, h := range subscribers {
		if k.others == nil {
			k.others = make(map[*handler]*pump)
		}
		p := k.others[h]
		if p == nil {
			p = &pump{call: h.call, gone: &h.gone, log: k.engine.Logger}
			k.others[h] = p
		}
		p.push(ev)
	}
}

// refused emits the terminal event of a call whose turn never began.
func (k *call) refused(err error) {
	k.mu.Lock()
	ended := k.ended
	k.mu.Unlock()
	if err == nil || ended {
		return
	}
	ev := Event{Kind: TurnRefused, Err: err}
	if errors.Is(err, ErrIndeterminate) { // the call's own run is in flight since an earlier call
		ev.Kind = TurnLeft
	}
	k.emit(ev)
}

// again says that another turn of the same call follows.
func (k *call) again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = false
}

// close waits for the handlers: for the caller's own as long as it takes, for those of others not longer than
// Limits.SettleTimeout.
func (k *call) close() {
	k.mu.Lock()
	own, others := k.own, maps.Clone(k.others)
	k.mu.Unlock()
	if own != nil {
		<-own.empty()
	}
	if len(others) == 0 {
		return
	}
	patience := time.NewTimer(k.engine.Limits.SettleTimeout)
	defer patience.Stop()
	for _, p := range others {
		select {
		case <-p.empty():
		case <-patience.C:
			return
		}
	}
}

// A pump calls a handler for one event after the other, from a goroutine that lives while there are any. A handler that
// panics has had its event.
type pump struct {
	call func(Event)
	gone *atomic.Bool // nil: never
	log  *slog.Logger

	mu      sync.Mutex // protects following fields
	waiting []Event
	busy    chan struct{} // closed when nothing waits any more; nil while nothing does
}

func (p *pump) push(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, ev)
	if p.busy == nil {
		p.busy = make(chan struct{})
		go p.run()
	}
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
	if len(p.waiting) == 0 {
		close(p.busy)
		p.busy = nil
		return Event{}, false
	}
	ev := p.waiting[0]
	p.waiting = p.waiting[1:]
	return ev, true
}

func (p *pump) handle(ev Event) {
	if p.gone != nil && p.gone.Load() {
		return
	}
	if err := protect(func() error { p.call(ev); return nil }); err != nil {
		p.log.Error("event handler panicked", "kind", string(ev.Kind), "session", ev.Session, "err", err)
	}
}
