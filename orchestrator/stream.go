package orchestrator

import (
	"context"
	"iter"
	"sync"
)

// A Stream is an Execute under way. Leaving the loop over Events does not end the turn; ending ctx does as in Execute.
type Stream[S any] struct {
	done chan struct{} // closed when the call has returned
	res  *Result[S]
	err  error

	mu     sync.Mutex // protects following fields
	events []Event
	more   chan struct{} // closed, and replaced, when an event arrives
}

// Stream is Execute for those who watch.
func (o *Orchestrator[S]) Stream(ctx context.Context, session string, in Input, c *CallOptions) *Stream[S] {
	s := &Stream[S]{done: make(chan struct{}), more: make(chan struct{})}
	k := o.newCall(session, c)
	k.watch = s.add
	go func() {
		defer close(s.done)
		s.res, s.err = o.execute(ctx, k, in)
	}()
	return s
}

func (s *Stream[S]) add(ev Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, ev)
	close(s.more)
	s.more = make(chan struct{})
}

// Events yields what happens, until the call has returned. A second loop goes on where the first one was left. It may be
// as slow as it likes: events wait for it, the turn does not.
func (s *Stream[S]) Events() iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			ev, ok := s.next()
			if !ok || !yield(ev) {
				return
			}
		}
	}
}

func (s *Stream[S]) next() (Event, bool) {
	for {
		ev, ok, more := s.take()
		if ok {
			return ev, true
		}
		select {
		case <-more:
		case <-s.done:
			ev, ok, _ = s.take()
			return ev, ok
		}
	}
}

// take returns the oldest event, or what to wait for.
func (s *Stream[S]) take() (ev Event, ok bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		return Event{}, false, s.more
	}
	ev = s.events[0]
	s.events = s.events[1:]
	return ev, true, nil
}

// Result waits for the outcome, which is that of Execute.
func (s *Stream[S]) Result() (*Result[S], error) {
	<-s.done
	return s.res, s.err
}
