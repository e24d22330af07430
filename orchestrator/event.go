package orchestrator

import (
	"encoding/json"
	"time"
)

// An EventKind names what happened. Every turn ends with exactly one of the last five, TurnRefused if it never began;
// Delivered and Compacted come before TurnSettled.
type EventKind string

const (
	TurnStarted   EventKind = "turn.started"
	TurnResumed   EventKind = "turn.resumed"
	Routed        EventKind = "routed"
	IntentStarted EventKind = "intent.started"
	Token         EventKind = "token"
	IntentEnded   EventKind = "intent.ended" // Err set: failed; another attempt may follow
	Delivered     EventKind = "delivered"    // also of an earlier turn that was owed
	Compacted     EventKind = "compacted"
	TurnSettled   EventKind = "turn.settled"
	TurnSuspended EventKind = "turn.suspended"
	TurnFailed    EventKind = "turn.failed"
	TurnLeft      EventKind = "turn.left"    // still in flight: ctx ended, handed off, fenced off, or to be tried again
	TurnRefused   EventKind = "turn.refused" // never began: busy, drift, invalid, parked, shutting down
)

// An Event can be sent to a browser as JSON. It holds names, ids and numbers, and in Delta what the bot emits; never state,
// input or history. Err, and the Reason of Next, may repeat what a user said, and are not in the JSON.
type Event struct {
	Kind            EventKind
	Session, RunID  string
	Turn, Iteration int
	Intent          string
	Attempt         int    // of the intent; tokens of an earlier one are void
	Delta           string // Token
	Next            Next   // Routed
	Usage           Usage
	Took            time.Duration
	At              time.Time
	Dropped         int   // events before this one that its handler or reader was too slow for; mostly tokens
	Err             error `json:"-"`

	replayed bool // TurnSettled of a turn that settled before
}

// MarshalJSON leaves out what is not for a browser.
func (ev Event) MarshalJSON() ([]byte, error) {
	type fields Event
	type next struct {
		Intents []string
		End     bool
	}
	return json.Marshal(struct {
		fields
		Next next
	}{fields(ev), next{ev.Next.Intents, ev.Next.End}})
}
