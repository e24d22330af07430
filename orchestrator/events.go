package orchestrator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// listeners hold the handlers of Subscribe, and what every call needs to hand events to its handlers.
type listeners struct {
	report reporter

	// patience is how long a handler may take for one event: Limits.SettleTimeout.
	patience time.Duration
	mu       sync.Mutex // serializes changes
	all      atomic.Pointer[[]*pump]
}

func (l *listeners) list() []*pump {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (l *listeners) change(f func([]*pump) []*pump) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := f(slices.Clone(l.list()))
	l.all.Store(&all)
}

// A call is one call of a user: its options, and the listeners of its events.
type call struct {
	listeners *listeners
	session   string
	force     bool

	// alone says that no caller waits for the outcome. A run that fails is then tried again.
	alone bool

	// watch belongs to a Stream. It never blocks, and reports whether the event was let in.
	watch func(Event) bool

	mu sync.Mutex // protects following fields

	// ended says that a terminal event was emitted for the current turn.
	ended bool
	own   *pump // of CallOptions.OnEvent; nil: none

	// others are the handlers that got an event of this call.
	others []*pump

	// unread counts the events that a Stream has dropped.
	unread int
}

func (l *listeners) newCall(session string, c *CallOptions) *call {
	k := &call{listeners: l, session: session}
	if c == nil {
		return k
	}
	k.force = c.Force
	if c.OnEvent != nil {
		k.own = &pump{what: "OnEvent", call: c.OnEvent, report: &l.report, events: backlog{ends: true}}
	}
	return k
}

// heard reports whether the call has a listener.
func (k *call) heard() bool {
	return k.own != nil || k.watch != nil || len(k.listeners.list()) > 0
}

// emit hands an event to the listeners, without waiting for them.
func (k *call) emit(ev Event) {
	k.listeners.report.meters.ended(ev)
	subscribers := k.listeners.list()
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
	ev.Next = ev.Next.told()
	if k.watch != nil && !k.watch(ev) {
		k.listeners.report.dropped("a Stream", k.session, k.unread)
		k.unread++
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
	if errors.Is(err, ErrIndeterminate) { // the call's own run is in flight: an earlier call began it
		ev.Kind = TurnLeft
	}
	k.emit(ev)
}

// again notes that another turn of the same call follows.
func (k *call) again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = false
}

// subscriberWait is how long a call waits for the handlers of Subscribe.
const subscriberWait = 100 * time.Millisecond

// close waits for the handlers. It waits for OnEvent as awaitOwn says, and for the handlers of Subscribe for
// subscriberWait, if they keep up.
func (k *call) close(ctx context.Context) {
	k.mu.Lock()
	own, others := k.own, slices.Clone(k.others)
	k.mu.Unlock()
	if own != nil {
		k.awaitOwn(ctx, own)
	}
	others = slices.DeleteFunc(others, func(h *pump) bool { return h.idle() || h.slow.Load() })
	if len(others) == 0 {
		return
	}
	late := time.NewTimer(subscriberWait)
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

// awaitOwn waits until OnEvent has had all events. It gives up when one event takes longer than
// Limits.SettleTimeout, or when all take so long after ctx has ended.
func (k *call) awaitOwn(ctx context.Context, own *pump) {
	done := own.empty()
	select {
	case <-done:
		return
	default:
	}
	d := k.listeners.patience
	late := time.NewTimer(d)
	defer late.Stop()
	for before := own.handled.Load(); ; {
		select {
		case <-done:
			return
		case <-late.C:
		}
		now := own.handled.Load()
		if now == before || ctx.Err() != nil {
			left := own.leave()
			k.listeners.report.meters.drop(left)
			k.listeners.report.log.ErrorContext(ctx, "events dropped: OnEvent has not returned, and its call does",
				"session", k.session, "events", left)
			return
		}
		before = now
		late.Reset(d)
	}
}
