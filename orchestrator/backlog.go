package orchestrator

// The bounds of a backlog, for a handler or a reader of a Stream that is slower than the turn. A reply of a model has
// some 10 KB.
const (
	// mostWaiting is the number of waiting events from which tokens and parts are dropped. Other events are dropped
	// from twice as many.
	mostWaiting = 8192
	mostText    = 1 << 20 // bytes of tokens and parts
	mostJoined  = 4 << 10 // bytes of tokens in one event

	// joinable is how many events back a token looks for an earlier token of its attempt.
	joinable = 64
)

// A backlog holds the events that were not handled yet. It is not safe for concurrent use.
//
// From a quarter of its bound on, tokens of one attempt are joined: a slow reader gets longer tokens, and loses
// nothing. Beyond the bound, tokens and parts are dropped first. The next event that is let in says how many were
// dropped.
type backlog struct {
	most int // events that may wait; 0 means mostWaiting

	// ends says that an event that ends a turn is never dropped.
	ends bool

	// eager says that tokens are joined from the first one on.
	eager   bool
	waiting []queued
	text    int // bytes of the waiting tokens
	dropped int // since an event was last let in
}

// A queued event may have got more text since it was pushed.
type queued struct {
	event Event
	more  []byte // replaces Delta; nil: no more text came
}

// push reports whether ev was let in.
func (b *backlog) push(ev Event) bool {
	if b.full(ev) {
		b.dropped += 1 + ev.Dropped
		return false
	}
	b.text += len(ev.Delta) + len(ev.Data)
	if ev.Kind == Token && b.dropped+ev.Dropped == 0 && (b.eager || len(b.waiting) >= b.limit()/4) && b.join(ev) {
		return true
	}
	ev.Dropped += b.dropped // an event of another backlog may say already how many are missing before it
	b.dropped = 0
	b.waiting = append(b.waiting, queued{event: ev})
	return true
}

func (b *backlog) limit() int {
	if b.most > 0 {
		return b.most
	}
	return mostWaiting
}

func (b *backlog) full(ev Event) bool {
	switch {
	case ev.Kind == Token || ev.Kind == Part:
		return len(b.waiting) >= b.limit() || b.text > 0 && b.text+len(ev.Delta)+len(ev.Data) > mostText
	case b.ends && ev.Kind.outcome() != "":
		return false
	}
	return len(b.waiting) >= 2*b.limit()
}

// join adds a token to a waiting token of the same attempt. Branches that run at once take turns, so join looks back a
// little.
func (b *backlog) join(ev Event) bool {
	for i := len(b.waiting) - 1; i >= max(0, len(b.waiting)-joinable); i-- {
		q := &b.waiting[i]
		if q.event.Kind == IntentStarted && ofOneIntent(q.event, ev) {
			return false // an attempt that was begun anew
		}
		if !ofOneAttempt(q.event, ev) {
			continue
		}
		if q.more == nil {
			q.more = []byte(q.event.Delta)
			q.event.Delta = ""
		}
		if len(q.more)+len(ev.Delta) > mostJoined {
			return false
		}
		q.more = append(q.more, ev.Delta...)
		return true
	}
	return false
}

func ofOneIntent(a, b Event) bool {
	return a.Session == b.Session && a.RunID == b.RunID && a.Intent == b.Intent && a.Item == b.Item
}

func ofOneAttempt(a, b Event) bool {
	return ofOneIntent(a, b) && a.Kind == b.Kind && a.Turn == b.Turn && a.Iteration == b.Iteration &&
		a.Attempt == b.Attempt
}

// pop returns the oldest event; false if there is none.
func (b *backlog) pop() (Event, bool) {
	if len(b.waiting) == 0 {
		return Event{}, false
	}
	q := b.waiting[0]
	b.waiting[0] = queued{}
	if b.waiting = b.waiting[1:]; len(b.waiting) == 0 {
		b.waiting = nil
	}
	if q.more != nil {
		q.event.Delta = string(q.more)
	}
	b.text -= len(q.event.Delta) + len(q.event.Data)
	return q.event, true
}

// each calls f for the waiting events, the oldest first, and leaves them.
func (b *backlog) each(f func(Event)) {
	for _, q := range b.waiting {
		if q.more != nil {
			q.event.Delta = string(q.more)
		}
		f(q.event)
	}
}

// discard drops the waiting events, and returns how many there were.
func (b *backlog) discard() int {
	n := len(b.waiting)
	b.waiting, b.text = nil, 0
	return n
}
