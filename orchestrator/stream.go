package orchestrator

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/logtext"
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
	k := o.engine.listeners.newCall(session, c)
	k.watch = s.add
	go func() {
		defer close(s.done)
		s.err = fmt.Errorf("%w: %w", ErrIndeterminate, errGoexit) // unless execute returns
		// No caller could catch the panic of a store.
		err := o.engine.functions.protect(ctx, func() error {
			s.res, s.err = o.execute(ctx, k, in)
			return nil
		})
		if err != nil {
			s.err = &Error{Op: "stream", Session: session, Err: indeterminate(logtext.Private(err))}
		}
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

// Events yields the events of the call's own turn, until the call has returned. With CallOptions.Earlier it also yields
// those of earlier turns. A second loop goes on where the first loop was left. The loop may be slow: events wait for
// the loop, the turn does not.
//
// If the call has joined another with the same request id, as Execute says, Events yields the events of the turn from
// the first one on. The tokens that were emitted before it joined may be joined to longer ones, and their Seq has gaps.
// So many are kept while the turn runs: 1 MiB of tokens, 4,096 events, and twice as many that are no tokens. If there
// were more, the next event says in Event.Dropped how many are missing.
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

// Subscribe calls h for every event of this process, in the order of each turn, one at a time. No turn waits for h. At
// its end, a call waits for h for a tenth of a second. So h mostly has seen the events of the call when the call
// returns. If h is behind already, the call does not wait.
//
// An h that hangs keeps one goroutine, 16,384 events and 1 MiB of tokens at most. That is about 6 MB in all, not for
// each call. Further events are dropped and counted. Tokens are dropped first, from 8,192 events on. The next event
// that h gets says in Event.Dropped how many were dropped. A log line and the metric holdfast.events.dropped say so
// too.
func (o *Orchestrator[S]) Subscribe(h func(Event)) (unsubscribe func()) {
	listeners := &o.engine.listeners
	sub := &pump{what: "a handler of Subscribe", call: h, report: &listeners.report}
	listeners.change(func(all []*pump) []*pump { return append(all, sub) })
	return func() {
		sub.leave()
		listeners.change(func(all []*pump) []*pump {
			return slices.DeleteFunc(all, func(h *pump) bool { return h == sub })
		})
	}
}
