package bottest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// A Diary collects events.
type Diary struct {
	mu     sync.Mutex // protects following field
	Events []Event
}

// Note is an OnEvent.
func (d *Diary) Note(ev Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Events = append(d.Events, ev)
}

// All returns the events so far.
func (d *Diary) All() []Event {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.Events)
}

// Kinds joins the kinds of the events.
func (d *Diary) Kinds() string {
	var kinds []string
	for _, ev := range d.All() {
		kinds = append(kinds, string(ev.Kind))
	}
	return strings.Join(kinds, " ")
}

// Text is an event in the form for browsers and logs.
func (d *Diary) Text() string {
	var b strings.Builder
	for _, ev := range d.All() {
		data, _ := json.Marshal(ev)
		fmt.Fprintf(&b, "%s %v\n", data, ev.Err)
	}
	return b.String()
}

// Ears collects the events of a call, without its tokens.
type Ears struct {
	mu     sync.Mutex
	Events []Event
}

// Options makes a call tell its events.
func (l *Ears) Options() *orchestrator.CallOptions {
	return &orchestrator.CallOptions{OnEvent: func(ev Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.Events = append(l.Events, ev)
	}}
}

// Forget drops the events so far.
func (l *Ears) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Events = nil
}

// WantOnly checks that the call has told of one event, and returns that event.
func (l *Ears) WantOnly(t *testing.T, want orchestrator.EventKind) Event {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.Events) != 1 || l.Events[0].Kind != want {
		t.Fatalf("told of %v, want one %v", l.Events, want)
	}
	return l.Events[0]
}

// A LockedBuffer takes the records of a log.
type LockedBuffer struct {
	mu sync.Mutex // protects following field
	B  bytes.Buffer
}

// Write implements io.Writer.
func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.B.Write(p)
}

// String returns what was written.
func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.B.String()
}

// Spoken joins the tokens of events, and kinds names the others.
func Spoken(all []Event) (text, kinds string) {
	var names []string
	for _, ev := range all {
		text += ev.Delta
		if ev.Kind != orchestrator.Token {
			names = append(names, string(ev.Kind))
		}
	}
	return text, strings.Join(names, " ")
}

// WholeTurn is what a turn without a fault tells, its tokens aside.
const WholeTurn = "turn.started routed intent.started intent.ended turn.settled"
