package orchestrator

import (
	"context"
	"iter"
	"sync"
)

// A Stream is a call of Execute in progress. If the caller leaves the loop over Events, the turn goes on. The end of
// ctx does the same as in Execute.
type Stream[S any] struct {
	done chan struct{} // closed when the call has returned
	res  *Result[S]
	err  error

	mu     sync.Mutex // protects following fields
	events backlog

	// more is closed, and replaced, when an event arrives.
	more chan struct{}
}

// Stream is Execute for callers that watch the turn.
func (o *Orchestrator[S]) Stream(ctx context.Context, session string, in Input, c *CallOptions) *Stream[S] {
	s := &Stream[S]{done: make(chan struct{}), more: make(chan struct{}), events: backlog{ends: true}}
	k := o.newCall(session, c)
	k.watch = s.add
	go func() {
		defer close(s.done)
		s.res, s.err = o.execute(ctx, k, in)
	}()
	return s
}

func (s *Stream[S]) add(ev Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.events.push(ev) {
		return false
	}
	close(s.more)
	s.more = make(chan struct{})
	return true
}

// Events yields the events of the call, until the call has returned. A second loop goes on where the first loop was
// left. The loop may be slow: events wait for the loop, the turn does not.
//
// If a reader is 2,048 events behind, the tokens of an attempt are joined, and nothing is lost. If a reader is 8,192
// events or 1 MiB of tokens behind, tokens are lost, and the next event says in Event.Dropped how many. An event that
// ends a turn is never dropped.
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

// take returns the oldest event, or a channel to wait for.
func (s *Stream[S]) take() (ev Event, ok bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ev, ok = s.events.pop()
	return ev, ok, s.more
}

// Result waits for the outcome, and returns it as Execute does.
func (s *Stream[S]) Result() (*Result[S], error) {
	<-s.done
	return s.res, s.err
}
