package orchestrator

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/retry"
)

// A Definition describes the bot; it has everything that needs S. New refuses an S that is a pointer, and an S that
// JSON would lose: unexported fields, interfaces, funcs and channels without their own marshaling. Use json.RawMessage
// for values of any type.
type Definition[S any] struct {
	Name string

	// Version names a form of the stored states. Migrate sees the rows of other versions. Change it if Migrate has to
	// convert a state that S could read without a loss, as if a number is now in cents. It is compared for equality
	// only.
	Version string
	Intents Intents[S]

	// First runs first in every turn. "" asks Route.
	First string

	// Route decides what runs next; an LLM router is a Route too. It may be nil if First or a single intent decides.
	Route func(context.Context, *Turn[S]) (Next, error)

	// Iterate goes round until Route or Evaluate ends the turn. Without it, one dispatch is a turn.
	Iterate bool

	// Begin runs before the run is saved. Use it to seed, to clear, to check and apply the input, to recall. It runs
	// again only if the state that it saw is no longer the newest.
	Begin func(context.Context, *Turn[S]) error

	// Evaluate runs after each iteration. End means satisfied, To reassigns. It may set t.Feedback.
	Evaluate func(context.Context, *Turn[S]) (Next, error)

	// OnFail may settle a turn that failed: with an apology, say, or a ticket. t.State is the state as the turn had it
	// before the function that failed, and err is the *Error of the turn. If OnFail returns nil, the turn settles with
	// t.State, and says that it Failed. If it returns an error, err itself say, the turn fails as without OnFail.
	//
	// With a caller, OnFail is asked at once. Without one, in a drain, it is asked in place of parking the run, after
	// Limits.Attempts. It is never asked while an effect is in doubt, or if Begin or Put refused the input. It has
	// Limits.SettleTimeout. Like Begin, it cannot use Once.
	OnFail func(ctx context.Context, t *Turn[S], err error) error

	// Merge makes one state of the branches of a fan-out, which are in decision order. If it is nil, the changed
	// top-level fields are merged, and two branches that changed one field are ErrMerge.
	Merge func(base S, branches []S) (S, error)

	// Migrate makes an S of a stored state that another Version wrote, or of which S would lose something. It is called
	// for the newest row, the run in flight, replayed and owed turns, and Turns. It may be called more than once for a
	// row. Lenient and Strict are such functions.
	//
	// If Migrate does not know the Version, let it return a *DriftError, as Strict does: then the row is left to
	// another process. If a run in flight has intents that this definition does not have, and Migrate accepts its
	// state, the decision about what runs next is made anew, by First or Route, and finished branches of a fan-out run
	// again. If nothing decides anew, the run is left. Migrate cannot rename an intent: keep the old name beside the
	// new one.
	Migrate func(context.Context, checkpoint.Checkpoint) (S, error)

	// Deliver runs after the settle, at least once for each turn, in turn order. The RunID is the id of the delivery.
	// Deliver is also the place to store messages and to keep memories.
	Deliver func(context.Context, *Result[S]) error

	// Respond returns what Options.TurnLog has as the reply of a settled turn, as JSON. It may be called more than once
	// for a turn, also right before the turn is settled, and returns the same each time. If it is nil, the turn log has
	// the state.
	Respond func(*Result[S]) any

	// Labels returns by what the session is found: see Orchestrator.Sessions and checkpoint.SessionQuery. It is called
	// with the state that a turn leaves, right before the turn settles, and changes nothing. The labels are stored with
	// the turn, and only if they are others than before. nil means no labels. After a deploy that changes Labels, a
	// session gets its labels with its next turn. If Labels panics, or returns labels that no store takes, the turn
	// settles, and the labels stay as they were.
	Labels func(*S) []checkpoint.Label

	// TraceOf names the session in whose trace the runs of this session are, if Options.SessionTrace is set. For a
	// child this is its root. It is called with the state of a run that begins or goes on, and changes nothing. If it
	// is nil, if it fails, or if a name is "", the session has a trace of its own.
	TraceOf func(*S) (orchestrator, session string)

	// Expire does what comes due in sessions without anybody asking for it, and returns how much it has done: limit at
	// most, where 0 means no limit. Sweep and Expire of the Orchestrator call it. nil does nothing.
	Expire func(ctx context.Context, limit int) (done int, err error)
}

// Intents are the intents of a bot by name.
type Intents[S any] map[string]Intent[S]

// An Intent is a unit of work that a turn may dispatch.
type Intent[S any] struct {
	Run func(context.Context, *Turn[S]) error

	// Description is for a router.
	Description string

	// Next follows this intent. The zero Next asks Route. New checks it.
	Next Next

	// Then decides what follows, if Evaluate has no opinion. Use it in place of Next. It runs once an iteration, after
	// the merge, for each intent that was decided: it sees the state of all branches, and may change it. If the intent
	// ran for items, or for no item at all, Then runs once.
	Then func(context.Context, *Turn[S]) (Next, error)

	// Retry says how often an intent is tried. Zero means once. Each attempt gets the state afresh. After
	// retry.Permanent there is no other attempt.
	Retry retry.Policy

	// Timeout bounds one attempt. 0 means no limit.
	Timeout time.Duration
}
