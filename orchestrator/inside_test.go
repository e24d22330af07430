package orchestrator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
)

// Another attempt does not start once the deadline of the lease has passed, also if no timer had a chance to say so.
func TestNoAttemptPastDeadline(t *testing.T) {
	ran := 0
	var bot *Orchestrator[int]
	d := Definition[int]{Name: "late", Intents: Intents[int]{"work": {
		Retry: retry.Policy{Attempts: 3},
		Run: func(context.Context, *Turn[int]) error {
			ran++
			for _, s := range bot.engine.sessions.Sessions() {
				s.Expire()
			}
			return errors.New("no")
		},
	}}}
	o := &Options{Snapshots: new(snapshot.Memory), Logger: slog.New(slog.DiscardHandler)}
	bot, err := New(d, new(checkpoint.Memory), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bot.Execute(t.Context(), "s", Input{}, nil); !errors.Is(err, lock.ErrExpired) || ran != 1 {
		t.Errorf("%v, after %d attempts", err, ran)
	}
}

// A reader who waits when the call returns is yielded what came before.
func TestStreamYieldsWhatIsLeft(t *testing.T) {
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
		s.mu.Unlock()
		close(s.done) // the reader wakes up for this one
		loop.Wait()
		if got != 2 {
			t.Errorf("%d events of 2", got)
		}
	})
}

// The events that wait for a slow handler are bounded. The handler gets the events that have waited, and later ones.
func TestPumpIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []int
		dropped := 0
		goOn := make(chan struct{})
		var logs bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logs, nil))
		e := newEngine(identity{name: "bot"}, new(checkpoint.Memory), Options{Logger: log})
		p := &pump{what: "handler", report: &e.listeners.report, events: backlog{most: 2}, call: func(ev Event) {
			<-goOn
			got = append(got, ev.Turn)
			dropped += ev.Dropped
		}}
		for n := range 6 {
			p.push(Event{Kind: Token, Turn: n})
			synctest.Wait()
		}
		if len(p.events.waiting) != 2 || p.lost != 3 {
			t.Errorf("%d wait, %d are dropped", len(p.events.waiting), p.lost)
		}
		close(goOn)
		<-p.empty()
		p.push(Event{Turn: 6})
		<-p.empty()
		if want := []int{0, 1, 2, 6}; !slices.Equal(got, want) || dropped != 3 {
			t.Errorf("got %v, want %v; told of %d that were dropped", got, want, dropped)
		}
		for _, want := range []string{
			`level=ERROR msg="events dropped: handler is too slow, or hangs"`,
			`level=WARN msg="events are handled again: handler has caught up" orchestrator=bot dropped=3`,
		} {
			if n := strings.Count(logs.String(), want); n != 1 {
				t.Errorf("%d lines %s in\n%s", n, want, &logs)
			}
		}
	})
}

// Parts are bounded by their bytes, as tokens are, and room that was left is used again. No part is joined.
func TestPartsAreBounded(t *testing.T) {
	part := Event{Kind: Part, Data: make([]byte, mostText/2)}
	b := backlog{eager: true}
	for range 2 {
		for i, want := range []bool{true, true, false} {
			if got := b.push(part); got != want {
				t.Errorf("part %d: let in %t", i, got)
			}
		}
		for range 2 {
			if _, more := b.pop(); !more {
				t.Error("a part is missing")
			}
		}
	}
}

// lazy notes whether it was read, which is not written.
type lazy struct {
	n    int
	read bool
}

func (l lazy) MarshalJSON() ([]byte, error) { return json.Marshal(l.n) }

func (l *lazy) UnmarshalJSON(doc []byte) error { return json.Unmarshal(doc, &l.n) }

func (l *lazy) value() int {
	l.read = true
	return l.n
}

// A field that two branches have read is no conflict, even if its type keeps something of the read.
func TestReadingIsNoChange(t *testing.T) {
	type state struct{ L lazy }
	b := branchOf(t, state{lazy{n: 1}}, func(s *state) { _ = s.L.value() })
	if len(b.Fields) > 0 {
		t.Errorf("changed %q", b.Fields)
	}
}

// For a handler that is far behind, tokens of a void attempt are not joined to tokens of the next attempt.
func TestTokensOfAnAttempt(t *testing.T) {
	b := backlog{most: 32}
	of := Event{Session: "s", RunID: "r", Intent: "i", Attempt: 1}
	push := func(kind EventKind, delta string) {
		ev := of
		ev.Kind, ev.Delta = kind, delta
		b.push(ev)
	}
	for range 4 {
		b.push(Event{Kind: IntentStarted, Session: "other"})
	}
	push(IntentStarted, "")
	push(Token, "void ")
	push(TurnLeft, "")
	push(TurnResumed, "")
	push(IntentStarted, "")
	push(Token, "valid")
	last := ""
	for ev, more := b.pop(); more; ev, more = b.pop() {
		last = ev.Delta
	}
	if last != "valid" {
		t.Errorf("the last token is %q", last)
	}
}

// For a handler that is far behind, a token is joined to a token of its own attempt only.
func TestTokensOfOthers(t *testing.T) {
	of := Event{Kind: Token, Session: "s", RunID: "r", Turn: 1, Iteration: 1, Intent: "i", Attempt: 1, Delta: "a"}
	for what, change := range map[string]func(*Event){
		"session":   func(ev *Event) { ev.Session = "other" },
		"run":       func(ev *Event) { ev.RunID = "other" },
		"turn":      func(ev *Event) { ev.Turn = 2 },
		"iteration": func(ev *Event) { ev.Iteration = 2 },
		"intent":    func(ev *Event) { ev.Intent = "other" },
		"attempt":   func(ev *Event) { ev.Attempt = 2 },
	} {
		b := backlog{most: 8}
		for range 4 {
			b.push(Event{Kind: IntentStarted, Session: "far behind"})
		}
		b.push(of)
		ev := of
		change(&ev)
		b.push(ev)
		b.push(of)
		var tokens []string
		for ev, more := b.pop(); more; ev, more = b.pop() {
			if ev.Kind == Token {
				tokens = append(tokens, ev.Delta)
			}
		}
		if !slices.Equal(tokens, []string{"aa", "a"}) {
			t.Errorf("another %s: tokens %q", what, tokens)
		}
	}
}
