package orchestrator

import (
	"log/slog"
	"time"
)

// A Result is a settled turn. Execute returns it, a repeat returns it again, Turns yields it, and Deliver gets it.
type Result[S any] struct {
	Session, RunID string
	Turn           int
	Input          Input
	State          S

	// Steps has one Step for each iteration.
	Steps []Step
	Usage Usage

	// SavedAt is by the store's clock. In the Result of the call that settled the turn, it is by the clock of this
	// process.
	SavedAt time.Time

	// Failed says that the turn failed, and that Definition.OnFail has settled it. State is what OnFail made of it.
	Failed bool

	// Replayed says that the input was answered before, and that nothing ran.
	Replayed bool

	// Resumed is the turn that was in flight and was finished first.
	Resumed *Result[S]

	// ResumeErr says why the run that was found in flight failed. That run has ended.
	ResumeErr error
}

// LogValue keeps state and input out of logs.
func (r *Result[S]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("session", r.Session), slog.Int("turn", r.Turn), slog.String("run", r.RunID),
		slog.Bool("replayed", r.Replayed))
}

// A Step is one iteration of a settled turn.
type Step struct {
	// Next says which intents ran. It has no items; Next.Items says how many there were.
	Next  Next
	Took  time.Duration // to the millisecond
	Usage Usage
}
