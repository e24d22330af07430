package orchestrator

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// Every part of an input, and of where it belongs, is in its run's id, and no two lists of parts are one.
func TestRunIDParts(t *testing.T) {
	type parts struct {
		orchestrator, session string
		born                  int64
		in                    Input
	}
	ids := make(map[string]parts)
	for _, p := range []parts{
		{"a", "s", 1, Input{RequestID: "r", Text: "t"}},
		{"b", "s", 1, Input{RequestID: "r", Text: "t"}},
		{"a", "x", 1, Input{RequestID: "r", Text: "t"}},
		{"a", "s", 2, Input{RequestID: "r", Text: "t"}},
		{"a", "s", 1, Input{RequestID: "q", Text: "t"}},
		{"a", "s", 1, Input{RequestID: "r", Text: "u"}},
		{"a", "s", 1, Input{RequestID: "r", Text: "t", Data: json.RawMessage(`1`)}},
		{"as", "", 1, Input{RequestID: "r", Text: "t"}},
		{"", "as", 1, Input{RequestID: "r", Text: "t"}},
		{"a", "s1", 1, Input{RequestID: "r", Text: "t"}},
		{"a", "s", 11, Input{RequestID: "r", Text: "t"}},
		{"a", "s", 1, Input{RequestID: "rt"}},
		{"a", "s", 1, Input{Text: "rt"}},
	} {
		id := runID(checkpoint.Key{Orchestrator: p.orchestrator, Session: p.session}, p.born, p.in, false)
		if other, taken := ids[id]; taken {
			t.Errorf("%+v and %+v have one id", p, other)
		}
		ids[id] = p
	}
	same := func(data string) string {
		return runID(
			checkpoint.Key{Orchestrator: "a", Session: "s"}, 1, Input{RequestID: "r", Data: json.RawMessage(data)},
			false)
	}
	if same(`{"a":1}`) != same(" {\"a\":\t1}\n") {
		t.Error("white space makes another run of an input")
	}
}

// Events that come with the end of the call are yielded.
func TestStreamYieldsTheLast(t *testing.T) {
	for range 64 { // which of two channels is seen first is left to chance
		synctest.Test(t, func(t *testing.T) {
			s := &Stream[int]{done: make(chan struct{}), more: make(chan struct{})}
			var got int
			var loop sync.WaitGroup
			loop.Go(func() {
				for range s.Events() {
					got++
				}
			})
			synctest.Wait()
			s.mu.Lock()
			s.events.push(Event{Kind: TurnSettled})
			s.events.push(Event{Kind: Delivered})
			close(s.more)
			s.more = make(chan struct{})
			close(s.done)
			s.mu.Unlock()
			loop.Wait()
			if got != 2 {
				t.Errorf("%d events of 2", got)
			}
		})
	}
}

// The names of intents are hashed in one order.
func TestSignatureHasAnOrder(t *testing.T) {
	d := Definition[int]{Name: "bot", Intents: make(Intents[int])}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		d.Intents[name] = Intent[int]{}
	}
	want := d.signature()
	for range 100 {
		if got := d.signature(); got != want {
			t.Fatalf("%s, then %s", want, got)
		}
	}
}

// A store may return any error, and its kind is asked for spans.
func TestErrorTypeOfForeignErrors(t *testing.T) {
	var none *foreignError
	for err, want := range map[error]string{
		none:                               "*orchestrator.foreignError",
		&foreignError{context.Canceled}:    "context.Canceled",
		&Error{Op: "save", Err: ErrParked}: "ErrParked",
	} {
		if got := errorType(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

type foreignError struct{ inner error }

func (e *foreignError) Error() string { return "foreign: " + e.inner.Error() }
func (e *foreignError) Unwrap() error { return e.inner }
