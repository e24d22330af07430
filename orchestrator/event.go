package orchestrator

import (
	"encoding/json"
	"time"
)

// An EventKind names an event. Every turn ends with exactly one of the last five kinds; TurnRefused if the turn never
// began. Delivered and Compacted come before TurnSettled.
type EventKind string

// The kinds of events.
const (
	TurnStarted   EventKind = "turn.started"
	TurnResumed   EventKind = "turn.resumed"
	Routed        EventKind = "routed"
	IntentStarted EventKind = "intent.started"
	Token         EventKind = "token"

	// IntentEnded with Err set says that the attempt failed. Another attempt may follow.
	IntentEnded EventKind = "intent.ended"

	// Delivered may also be of an earlier turn that was owed.
	Delivered     EventKind = "delivered"
	Compacted     EventKind = "compacted"
	TurnSettled   EventKind = "turn.settled"
	TurnSuspended EventKind = "turn.suspended"
	TurnFailed    EventKind = "turn.failed"

	// TurnLeft says that the turn is still in flight. Its ctx ended, it was handed off or fenced off, or it is to be
	// tried again.
	TurnLeft EventKind = "turn.left"

	// TurnRefused says that the turn never began: busy, drift, invalid, parked, shutting down.
	TurnRefused EventKind = "turn.refused"
)

// An Event can be sent to a browser as JSON. It holds names, ids and numbers, and in Delta the tokens that the bot
// emits. It never holds state, input or history. Err and the Reason of Next may repeat what a user said: they are not
// in the JSON.
type Event struct {
	Kind            EventKind
	Session, RunID  string
	Turn, Iteration int
	Intent          string

	// Item is the number of the item that the intent runs for, from 1; see ForEach. 0 means no item.
	Item int

	// Attempt counts the attempts of the intent. The tokens of an earlier attempt are void.
	Attempt int
	Delta   string // Token
	Next    Next   // Routed
	Usage   Usage
	Took    time.Duration
	At      time.Time

	// Dropped counts the events before this one that were dropped, because the handler or reader was too slow. Most are
	// tokens.
	Dropped int
	Err     error `json:"-"`

	// replayed marks the TurnSettled of a turn that had settled before.
	replayed bool
}

// MarshalJSON leaves out Err and the Reason of Next, which are not for a browser.
func (ev Event) MarshalJSON() ([]byte, error) {
	type fields Event
	type next struct {
		Intents []string
		Items   map[string]int `json:",omitempty"`
		End     bool
	}
	var counts map[string]int
	for name, all := range ev.Next.each {
		if counts == nil {
			counts = make(map[string]int)
		}
		counts[name] = all.count
	}
	return json.Marshal(struct {
		fields
		Next next
	}{fields(ev), next{ev.Next.Intents, counts, ev.Next.End}})
}

// outcome returns the outcome of a turn for metrics and spans. It returns "" if k does not end a turn.
func (k EventKind) outcome() string {
	switch k {
	case TurnSettled:
		return "settled"
	case TurnSuspended:
		return "suspended"
	case TurnFailed:
		return "failed"
	case TurnLeft:
		return "left"
	case TurnRefused:
		return "refused"
	}
	return ""
}
