package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
)

// A Definition describes the agent. C is what it knows of a session beside what was said.
type Definition[C any] struct {
	Name, Version string
	Model         Model
	Instructions  string
	Tools         []Tool

	// Finish is made by Output. If it is set, the model ends a turn by calling it, and its arguments are
	// Outcome.Result.
	Finish *Tool

	// Window is how many of the newest messages are read for the model. A call is never parted from its result, and the
	// newest message of the user is shown in any case. 0 is all.
	Window int

	// Compact keeps what the model is shown short. nil shows it all, or the Window.
	Compact *Compaction

	// Steer says what becomes of a message that comes while a turn is in flight.
	Steer Steering

	// Prepare may change what the model is asked, just before. It reads the state.
	Prepare func(ctx context.Context, s *State[C], r *Request) error

	// ShowReasoning shows what the model has thought to whoever follows a turn, as a turnhttp.Part, once the reply is
	// there.
	ShowReasoning bool

	// After says what the result of a call changes in Custom. It is called in the order of the calls, also for a result
	// that was recorded before a crash. A tool itself changes nothing in the state.
	After func(c *C, call Call, r Result)

	// MaxSteps is how often the model is asked in a turn. 0 means 20. MaxCost is of a session, over all its turns; 0 is
	// no limit. A turn that has reached one settles, Failed. MaxCost is looked at before each call of the model, so
	// that a session is over it by one call at most, its children included. With MaxCost they run one after the other.
	MaxSteps int
	MaxCost  float64

	// Retry says how often the model is asked for one reply, and how long the pauses are. The zero Policy asks four
	// times, with pauses of 1 s doubling up to a minute, ± 20 %. An attempt is no step. MaxRetryAfter is the longest
	// time that an error of retry.After may ask for; 0 means a minute. ReplyTimeout bounds an attempt; 0 means 10
	// minutes.
	Retry         retry.Policy
	MaxRetryAfter time.Duration
	ReplyTimeout  time.Duration

	// Begin, Deliver and Migrate are as those of an orchestrator.Definition: Begin works on t.State.Custom, and Migrate
	// makes a Custom of the one that was stored.
	Begin   func(context.Context, *Turn[C]) error
	Deliver func(context.Context, *Outcome[C]) error
	Migrate func(context.Context, checkpoint.Checkpoint) (C, error)
}

// A Turn is that of the engine.
type Turn[C any] = orchestrator.Turn[State[C]]

// A Model answers what was said.
type Model interface {
	// Reply returns the next message of the assistant. It calls token for what it says while it says it, if it can.
	// token may be called from any goroutine; once Reply has returned, it does nothing. What r holds must not be
	// changed. Usage counts also if there is an error. The package comment says what an error means.
	Reply(ctx context.Context, r Request, token func(string)) (Reply, error)
}

// A ToolChecker is a Model that knows which tools its API refuses. New returns its error, which names the tools.
type ToolChecker interface {
	CheckTools(tools []Tool) error
}

// ModelFunc is a function as a Model.
type ModelFunc func(ctx context.Context, r Request, token func(string)) (Reply, error)

// Reply calls f.
func (f ModelFunc) Reply(ctx context.Context, r Request, token func(string)) (Reply, error) {
	return f(ctx, r, token)
}

// A Request is what a model is asked.
type Request struct {
	Instructions string
	Said         []message.Message
	Tools        []Tool // Name, Description and Parameters count
	MustCall     bool   // the model has to call a tool: the definition has a Finish
}

// A Reply is what a model has said, and what it has cost.
type Reply struct {
	Message message.Message
	Usage   orchestrator.Usage

	// Cut says that the message ends in the middle: a length limit was reached. Its calls are dropped, since the last
	// one may be half of one.
	Cut bool
}

// A Call is one that the model has made.
type Call struct {
	ID, Name string
	Args     json.RawMessage

	// Key names the effect to the other side. It is the same each time.
	Key string `json:",omitempty"`

	Session string `json:",omitempty"` // the session whose model has made the call
}

// A Result is what came of a call.
type Result struct {
	Text   string
	Failed bool
}
