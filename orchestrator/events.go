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

	// shows append the events to Options.Stream; nil: there is none.
	shows *shows
	mu    sync.Mutex // serializes changes
	all   atomic.Pointer[[]*pump]
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
	input     Input // of an Execute or a Stream
	manner

	// watch belongs to a Stream. It never blocks, and reports whether the event was let in.
	watch func(Event) bool
	own   *pump // of CallOptions.OnEvent; nil: none

	// led has what calls with the same request id need to join this one; nil: they cannot.
	led *led

	mu sync.Mutex // protects following fields
	hearing
}

// A manner says how a call runs its turns.
type manner struct {
	force bool

	// alone says that no caller waits for the outcome. A run that fails is then tried again.
	alone bool

	// queued says that the input has waited in the queue.
	queued bool

	// earlier says that the listeners of the call also want the events of other turns; see CallOptions.
	earlier bool
}

// A hearing is what the listeners of a call have heard.
type hearing struct {
	// ended says that a terminal event was emitted for the current turn.
	ended bool

	// witnessed says that the call has seen its own run go on in another call.
	witnessed bool

	// own and other count the events of the call's own run, and of the other run that is under way.
	ownEvents, otherEvents runEvents

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
	k.force, k.earlier = c.Force, c.Earlier
	if c.OnEvent != nil {
		k.own = &pump{what: "OnEvent", call: c.OnEvent, report: &l.report, events: backlog{ends: true}}
	}
	return k
}

// heard reports whether the call has a listener.
func (k *call) heard() bool {
	return k.own != nil || k.watch != nil || k.led != nil || k.listeners.shows != nil || len(k.listeners.list()) > 0
}

// emit hands an event to the listeners, without waiting for them.
func (k *call) emit(ev Event) {
	k.listeners.report.meters.ended(ev)
	subscribers := k.listeners.list()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noteEnd(ev)
	counter := &k.ownEvents
	if ev.earlier {
		counter = &k.otherEvents
	}
	ev.Seq = counter.next(ev.RunID)
	shows := k.listeners.shows
	if len(subscribers) == 0 && k.own == nil && k.watch == nil && k.led == nil && shows == nil {
		return
	}
	ev.Session, ev.At = k.session, time.Now()
	ev.Next = ev.Next.told()
	if shows != nil && shown(ev) {
		shows.add(k.session, ev)
	}
	if k.led != nil {
		k.led.tell(ev)
	}
	k.tell(ev)
	for _, h := range subscribers {
		if !slices.Contains(k.others, h) {
			k.others = append(k.others, h)
		}
		h.push(ev)
	}
}

// noteEnd notes whether the current turn has had its terminal event.
func (k *call) noteEnd(ev Event) {
	switch {
	case ev.Kind == TurnStarted, ev.Kind == TurnResumed:
		k.ended = false
	case ev.Kind.outcome() != "":
		k.ended = true
	}
}

// tell hands an event to the listeners of this call alone.
func (k *call) tell(ev Event) {
	if ev.earlier && !k.earlier {
		return
	}
	if k.watch != nil && !k.watch(ev) {
		k.listeners.report.dropped("a Stream", k.session, k.unread)
		k.unread++
	}
	if k.own != nil {
		k.own.push(ev)
	}
}

// hand is tell for an event of another call.
func (k *call) hand(ev Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noteEnd(ev)
	k.witnessed = k.witnessed || !ev.earlier && (ev.Kind == TurnStarted || ev.Kind == TurnResumed)
	k.tell(ev)
}

// unsure returns err as one of an unknown outcome, if the call has seen its own run go on in another call and has not
// heard of its end.
func (k *call) unsure(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := errors.AsType[*Error](err)
	if !ok || !k.witnessed || k.ended || errors.Is(err, ErrIndeterminate) || errors.Is(err, ErrAbandoned) {
		return err
	}
	unknown := *e
	unknown.Err = indeterminate(e.Err)
	return &unknown
}

// runEvents counts the events of one run after the other.
type runEvents struct {
	runID string
	n     int
}

// next returns the number of the next event; 0 if it is of no run.
func (c *runEvents) next(runID string) int {
	switch {
	case runID == "":
		return 0
	case runID != c.runID:
		*c = runEvents{runID: runID}
	}
	c.n++
	return c.n
}

// refused emits the terminal event of a call whose turn never began.
func (k *call) refused(err error) {
	k.mu.Lock()
	ended := k.ended
	k.mu.Unlock()
	if err == nil || ended {
		return
	}
	ev := Event{Kind: TurnRefused, Err: err}.of(k.input)
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
