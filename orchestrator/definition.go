package orchestrator

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/retry"
)

// A Definition is what the bot is; everything that needs S. New refuses an S that JSON would lose: unexported fields,
// interfaces, funcs and channels without their own marshaling.
type Definition[S any] struct {
	Name    string
	Version string // change it with S or the bodies: Migrate then sees the old rows. Compared for equality only
	Intents Intents[S]
	First   string                                        // runs first in every turn; "" asks Route
	Route   func(context.Context, *Turn[S]) (Next, error) // an LLM router is one too; nil if First or a single intent settles it
	Iterate bool                                          // go round until Route or Evaluate ends the turn; else one dispatch is a turn

	Begin    func(context.Context, *Turn[S]) error                   // before the turn is recorded: seed, clear, check and apply the input, recall. Again only if the state it saw is not the newest any more
	Evaluate func(context.Context, *Turn[S]) (Next, error)           // after each iteration: End is satisfied, To reassigns, may set t.Feedback
	Merge    func(base S, branches []S) (S, error)                   // of a fan-out, in decision order; nil: changed top-level fields, ErrMerge if two differ
	Migrate  func(context.Context, checkpoint.Checkpoint) (S, error) // whenever Signature or Version differs: newest row, run in flight, replayed and owed turns, Turns
	Deliver  func(context.Context, *Result[S]) error                 // after the settle, at least once, in turn order; RunID is its id; also where messages are stored and memories kept
}

// Intents by name.
type Intents[S any] map[string]Intent[S]

// An Intent is a unit of work that a turn may dispatch.
type Intent[S any] struct {
	Run         func(context.Context, *Turn[S]) error
	Description string        // for a router
	Next        Next          // what follows; the zero Next asks Route. Checked by New
	Retry       retry.Policy  // zero: once. Each attempt gets the state afresh; none after retry.Permanent
	Timeout     time.Duration // of one attempt; 0: none
}

// A Choice is an intent as a router sees it.
type Choice struct{ Name, Description string }

// Next says what runs next. The zero Next has no opinion and leaves it to the next in line:
// Evaluate, the intent's Next, First, Route. From Route it is an error.
type Next struct {
	Intents []string
	End     bool   // the turn ends, whatever Intents says
	Reason  string // for people; of a resumed turn, that of earlier iterations is gone
}

// End ends the turn.
var End = Next{End: true}

// To runs intents, in parallel if there are several.
func To(intents ...string) Next { return Next{Intents: intents} }

func (n Next) zero() bool { return !n.End && len(n.Intents) == 0 }

// A Usage is what models have cost.
type Usage struct {
	Input, Output int
	Cost          float64
}

func (u Usage) plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Cost: u.Cost + v.Cost}
}

func (u Usage) minus(v Usage) Usage {
	return Usage{Input: u.Input - v.Input, Output: u.Output - v.Output, Cost: u.Cost - v.Cost}
}
