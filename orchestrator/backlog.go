package orchestrator

// What may wait for a handler, or for the reader of a Stream, that is slower than the turn. A reply of a model has
// some 10 KB.
const (
	mostWaiting = 8192    // tokens are dropped from so many events on, other events from twice as many
	mostText    = 1 << 20 // bytes of tokens
	mostJoined  = 4 << 10 // bytes of tokens in one event
	joinable    = 64      // events back in which a token looks for an earlier one of its attempt
)

// A backlog holds the events that were not handled yet. It is not safe for concurrent use.
//
// From a quarter of what may wait on, tokens of one attempt are joined: a slow reader gets longer ones, and loses
// nothing. Beyond what may wait, tokens are dropped first. The event that is let in next says how many were.
type backlog struct {
	most    int  // events that may wait; 0 means mostWaiting
	ends    bool // an event that ends a turn is never dropped
	waiting []queued
	text    int // bytes of the tokens that wait
	dropped int // since the last event that was let in
}

// A queued event may have got more text since it came.
type queued struct {
	Event
	more []byte // instead of Delta; nil: it has not
}

// push reports whether ev was let in.
func (b *backlog) push(ev Event) bool {
	if b.full(ev) {
		b.dropped++
		return false
	}
	b.text += len(ev.Delta)
	if ev.Kind == Token && b.dropped == 0 && len(b.waiting) >= b.limit()/4 && b.join(ev) {
		return true
	}
	ev.Dropped, b.dropped = b.dropped, 0
	b.waiting = append(b.waiting, queued{Event: ev})
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
	case ev.Kind == Token:
		return len(b.waiting) >= b.limit() || b.text > 0 && b.text+len(ev.Delta) > mostText
	case b.ends && ev.Kind.outcome() != "":
		return false
	}
	return len(b.waiting) >= 2*b.limit()
}

// join adds a token to one of the same attempt that waits. Branches that run at once take turns, so it looks back a
// little.
func (b *backlog) join(ev Event) bool {
	for i := len(b.waiting) - 1; i >= max(0, len(b.waiting)-joinable); i-- {
		q := &b.waiting[i]
		if q.Kind == IntentStarted && q.Session == ev.Session && q.RunID == ev.RunID && q.Intent == ev.Intent {
			return false // an attempt that was begun anew
		}
		if !q.sameAttempt(ev) {
			continue
		}
		if q.more == nil {
			q.more = []byte(q.Delta)
			q.Delta = ""
		}
		if len(q.more)+len(ev.Delta) > mostJoined {
			return false
		}
		q.more = append(q.more, ev.Delta...)
		return true
	}
	return false
}

func (q *queued) sameAttempt(ev Event) bool {
	return q.Kind == ev.Kind && q.Session == ev.Session && q.RunID == ev.RunID && q.Turn == ev.Turn &&
		q.Iteration == ev.Iteration && q.Intent == ev.Intent && q.Attempt == ev.Attempt
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
		q.Delta = string(q.more)
	}
	b.text -= len(q.Delta)
	return q.Event, true
}

// discard drops what waits, and returns how many events that were.
func (b *backlog) discard() int {
	n := len(b.waiting)
	b.waiting, b.text = nil, 0
	return n
}
