package orchestrator

import (
	"errors"
	"log/slog"
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

// A handler is one that Subscribe was given, with the one goroutine that calls it.
type handler struct {
	pump
	gone atomic.Bool
	slow atomic.Bool // a call has waited for it in vain: none waits until it has caught up
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

// Subscribe calls h for every event of this process, in the order of each turn, one at a time. No turn waits for h. A call waits
// for a tenth of a second, so that h mostly has seen its events when it returns, and not at all for an h that is behind already.
// An h that hangs keeps one goroutine and some thousand events. Those that come then are dropped, which is logged.
func (o *Orchestrator[S]) Subscribe(h func(Event)) (unsubscribe func()) {
	sub := &handler{pump: pump{call: h, log: o.Logger, most: mostWaiting}}
	sub.pump.gone = &sub.gone
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
	others []*handler // who has been handed an event of this call
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
		if !slices.Contains(k.others, h) {
			k.others = append(k.others, h)
		}
		h.push(ev)
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

// patience is how long a call waits for the handlers of Subscribe.
const patience = 100 * time.Millisecond

// close waits for the handlers: for the caller's own as long as it takes, for those of others a moment, if they keep up.
func (k *call) close() {
	k.mu.Lock()
	own, others := k.own, slices.Clone(k.others)
	k.mu.Unlock()
	if own != nil {
		<-own.empty()
	}
	others = slices.DeleteFunc(others, func(h *handler) bool { return h.idle() || h.slow.Load() })
	if len(others) == 0 {
		return
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for i, h := range others {
		select {
		case <-h.empty():
		case <-late.C:
			for _, h := range others[i:] {
				h.slow.Store(!h.idle())
			}
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
	most int // events that may wait; 0: any number

	mu      sync.Mutex // protects following fields
	waiting []Event
	dropped int           // since something waits
	busy    chan struct{} // closed when nothing waits any more; nil while nothing does
}

// mostWaiting bounds the events that wait for a handler of Subscribe.
const mostWaiting = 8192

func (p *pump) push(ev Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most > 0 && len(p.waiting) >= p.most {
		if p.dropped == 0 {
			p.log.Error("events dropped: a handler of Subscribe is too slow or hangs", "waiting", len(p.waiting))
		}
		p.dropped++
		return
	}
	p.waiting = append(p.waiting, ev)
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
		p.busy, p.dropped = nil, 0
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
