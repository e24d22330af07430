package orchestrator

import (
	"encoding/json"
	"errors"
	"math"
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

	// Part is what Turn.Show was given: a call of a tool, its result, or whatever the bot shows beside its words.
	Part EventKind = "part"

	// EffectReplayed says that Once has given back what an effect had brought before.
	EffectReplayed EventKind = "effect.replayed"

	// IntentEnded with Err set says that the attempt failed. Another attempt may follow.
	IntentEnded EventKind = "intent.ended"

	// Delivered may also be of an earlier turn that was owed; see CallOptions.Earlier.
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

// An Event can be sent to a browser as JSON. It holds names, ids and numbers, and what the bot itself emits and shows:
// tokens in Delta, and parts in Data. It never holds state, input, items or history. Err and the Reason of Next may
// repeat what a user said: they are not in the JSON.
//
// The JSON has the members kind, session, request, origin, inputKind, run, seq, turn, iteration, intent, item,
// attempt, failed, delta, data, next (with intents, items and end), usage (with input, output and cost), ms, at and
// dropped. A member that is 0, false or empty is left out. failed says that Err of an IntentEnded is set, or Failed of
// a TurnSettled. An event that
// was read from JSON has an Err then, without the text.
type Event struct {
	Kind           EventKind
	Session, RunID string

	// RequestID, Origin, By and InputKind are those of the input whose run RunID is, or which was refused. If the run
	// cannot be read, all but RequestID are "". By of EffectReplayed is the person who has answered for the effect; ""
	// if none has. By is not in the JSON.
	RequestID string
	Origin    Origin
	By        string
	InputKind string

	// Seq counts the events of the run in this process, from 1. A gap is as many events as were joined or dropped: a
	// token to which later ones were joined has the Seq of the first. If another call or another process goes on with
	// the run, it counts anew. 0 means that the event is of no run.
	Seq int

	Turn, Iteration int
	Intent          string

	// Item is the number of the item that the intent runs for, from 1; see ForEach. 0 means no item.
	Item int

	// Attempt counts the attempts of the intent, by its Retry or by Turn.BeginAnew. The tokens and parts of an earlier
	// attempt are void.
	Attempt int
	Delta   string          // Token
	Data    json.RawMessage // Part
	Next    Next            // Routed; without the items
	Usage   Usage
	Took    time.Duration
	At      time.Time

	// Dropped counts the events before this one that were dropped, because the handler or reader was too slow. Most are
	// tokens.
	Dropped int
	Err     error

	// Failed of TurnSettled says that the turn failed, and that Definition.OnFail has settled it.
	Failed bool

	// failure is the type of that error.
	failure string

	// replayed marks the TurnSettled of a turn that had settled before.
	replayed bool

	// earlier marks an event of another turn than the call's own.
	earlier bool

	// epoch is that of the owner of the session; 0 if the call owns none.
	epoch int64
}

// of returns ev as an event of the run of in.
func (ev Event) of(in Input) Event {
	ev.RequestID, ev.Origin, ev.By, ev.InputKind = in.RequestID, in.Origin, in.By, in.Kind
	return ev
}

// eventJSON is an Event in JSON.
type eventJSON struct {
	Kind      EventKind       `json:"kind"`
	Session   string          `json:"session,omitempty"`
	RequestID string          `json:"request,omitempty"`
	Origin    Origin          `json:"origin,omitempty"`
	InputKind string          `json:"inputKind,omitempty"`
	RunID     string          `json:"run,omitempty"`
	Seq       int             `json:"seq,omitempty"`
	Turn      int             `json:"turn,omitempty"`
	Iteration int             `json:"iteration,omitempty"`
	Intent    string          `json:"intent,omitempty"`
	Item      int             `json:"item,omitempty"`
	Attempt   int             `json:"attempt,omitempty"`
	Failed    bool            `json:"failed,omitempty"`
	Delta     string          `json:"delta,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Next      nextJSON        `json:"next,omitzero"`
	Usage     usageJSON       `json:"usage,omitzero"`
	Took      float64         `json:"ms,omitempty"`
	At        *time.Time      `json:"at,omitempty"`
	Dropped   int             `json:"dropped,omitempty"`
}

type nextJSON struct {
	Intents []string       `json:"intents,omitempty"`
	Items   map[string]int `json:"items,omitempty"`
	End     bool           `json:"end,omitempty"`
}

// IsZero reports whether n says nothing.
func (n nextJSON) IsZero() bool { return len(n.Intents) == 0 && !n.End }

type usageJSON struct {
	Input  int     `json:"input,omitempty"`
	Output int     `json:"output,omitempty"`
	Cost   float64 `json:"cost,omitempty"`
}

// errAttempt is the Err of an event whose JSON says that the attempt failed.
var errAttempt = errors.New("orchestrator: the attempt failed")

// MarshalJSON returns the JSON of the event, for a browser. It leaves out the text of Err, and the Reason of Next.
func (ev Event) MarshalJSON() ([]byte, error) {
	e := eventJSON{
		Kind: ev.Kind, Session: ev.Session, RequestID: ev.RequestID, Origin: ev.Origin, InputKind: ev.InputKind,
		RunID: ev.RunID, Seq: ev.Seq, Turn: ev.Turn,
		Iteration: ev.Iteration, Intent: ev.Intent, Item: ev.Item, Attempt: ev.Attempt, Delta: ev.Delta,
		Data:   ev.Data,
		Failed: ev.Kind == IntentEnded && ev.Err != nil || ev.Failed,
		Next:   nextJSON{Intents: ev.Next.Intents, End: ev.Next.End},
		Usage:  usageJSON{ev.Usage.Input, ev.Usage.Output, ev.Usage.Cost},
		Took:   float64(ev.Took) / float64(time.Millisecond), Dropped: ev.Dropped,
	}
	if !ev.At.IsZero() {
		e.At = &ev.At
	}
	for name, all := range ev.Next.each {
		if e.Next.Items == nil {
			e.Next.Items = make(map[string]int)
		}
		e.Next.Items[name] = all.count
	}
	return json.Marshal(e)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (ev *Event) UnmarshalJSON(doc []byte) error {
	var e eventJSON
	if err := json.Unmarshal(doc, &e); err != nil {
		return err
	}
	*ev = Event{
		Kind: e.Kind, Session: e.Session, RequestID: e.RequestID, Origin: e.Origin, InputKind: e.InputKind,
		RunID: e.RunID, Seq: e.Seq, Turn: e.Turn,
		Iteration: e.Iteration, Intent: e.Intent, Item: e.Item, Attempt: e.Attempt, Delta: e.Delta,
		Data:  e.Data,
		Next:  Next{Intents: e.Next.Intents, End: e.Next.End},
		Usage: Usage{Input: e.Usage.Input, Output: e.Usage.Output, Cost: e.Usage.Cost},
		Took:  time.Duration(math.Round(e.Took * float64(time.Millisecond))), Dropped: e.Dropped,
	}
	if e.At != nil {
		ev.At = *e.At
	}
	if ev.Failed = e.Failed && e.Kind == TurnSettled; e.Failed && !ev.Failed {
		ev.Err = errAttempt
	}
	for name, count := range e.Next.Items {
		if ev.Next.each == nil {
			ev.Next.each = make(map[string]items)
		}
		ev.Next.each[name] = items{count: count}
	}
	return nil
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
