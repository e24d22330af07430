package orchestrator

import (
	"slices"
	"sync"
)

// leaders are the calls of Execute and Stream in this process that have a request id, by session and request id. A
// second call with the same input joins the first: it gets the events of the first, from its first event on, and its
// outcome.
type leaders struct {
	mu    sync.Mutex // protects following field
	calls map[request]*led
}

type request struct{ session, id string }

// A led is a call of Execute or Stream that others can join.
type led struct {
	request request
	input   Input
	force   bool

	mu sync.Mutex // protects following fields

	// events are the events so far. Tokens of one attempt are joined, so that a long answer takes little more than its
	// text. room is the list that they began in.
	events backlog
	room   *[]queued

	// end is the last event of the turn, unless it has settled. It is held back until the call returns. If its own
	// context has ended, the calls that joined go on with the turn.
	end     *Event
	joined  []*joining
	settled bool // the turn has settled
	over    bool // the call has returned
}

// A joining is a call that has joined another.
type joining struct {
	// hand gives the call an event.
	hand func(Event)

	// missing counts the events before the next one that were not kept.
	missing int

	// answer gets the outcome of the other call, once.
	answer chan joinedAnswer
}

type joinedAnswer struct {
	// alone says that the other call has left the turn, and that this one goes on by itself.
	alone bool
	res   any // a *Result[S] that shares no state
	err   error
}

// mostKept bounds the events that are kept for calls that join. It is smaller than the bound of a Stream, because every
// turn with a request id keeps them.
const mostKept = 4096

// rooms are the lists of events of calls that have ended. Longer lists than mostRoom are not used again.
var rooms = sync.Pool{New: func() any {
	room := make([]queued, 0, 16)
	return &room
}}

const mostRoom = 64

// enter returns the call that is at work on a request. If there is none, mine is that call from now on.
func (l *leaders) enter(mine *led) (first *led) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if first = l.calls[mine.request]; first != nil {
		return first
	}
	if l.calls == nil {
		l.calls = make(map[request]*led)
	}
	mine.room, _ = rooms.Get().(*[]queued)
	mine.events = backlog{most: mostKept, ends: true, eager: true, waiting: *mine.room}
	l.calls[mine.request] = mine
	return nil
}

// leave ends a call that others could join. It returns the calls that have joined, and the event that was held back.
func (l *leaders) leave(mine *led) (end *Event, joined []*joining) {
	l.mu.Lock()
	delete(l.calls, mine.request)
	l.mu.Unlock()
	mine.mu.Lock()
	defer mine.mu.Unlock()
	mine.over = true
	if room := mine.events.waiting; cap(room) <= mostRoom {
		clear(room)
		*mine.room = room[:0]
		rooms.Put(mine.room)
	}
	mine.events = backlog{}
	joined, mine.joined = mine.joined, nil // part must not touch what the caller goes over
	return mine.end, joined
}

// join hands out the events so far, and from now on all others. It reports false if the call has returned.
func (l *led) join(j *joining) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.events.each(j.hand)
	j.missing = l.events.dropped
	l.joined = append(l.joined, j)
	return true
}

// part ends the joining of a call whose context has ended. It reports false if the turn has settled or the call has
// returned: then the answer is near, and the joining has to take it.
func (l *led) part(j *joining) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.settled {
		return false
	}
	l.joined = slices.DeleteFunc(l.joined, func(other *joining) bool { return other == j })
	return true
}

// tell keeps an event, and hands it to the calls that have joined.
func (l *led) tell(ev Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.over:
		return
	case ev.Kind.outcome() != "" && ev.Kind != TurnSettled && !ev.earlier:
		end := ev // a copy, so that the other events stay off the heap
		l.end = &end
		return
	}
	l.settled = l.settled || ev.Kind == TurnSettled && !ev.earlier
	l.events.push(ev)
	for _, j := range l.joined {
		ev.Dropped, j.missing = j.missing, 0
		j.hand(ev)
	}
}
