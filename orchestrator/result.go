package orchestrator

import (
	"log/slog"
	"time"
)

// A Result is a settled turn: Execute returns it, a repeat returns it again, Turns yields it, Deliver hands it over.
type Result[S any] struct {
	Session, RunID string
	Turn           int
	Input          Input
	State          S
	Steps          []Step // one an iteration
	Usage          Usage
	SavedAt        time.Time  // the store's clock; this process's in the Result of the call that settled it
	Replayed       bool       // the input was answered before; nothing ran
	Resumed        *Result[S] // the turn found in flight and finished first
	ResumeErr      error      // why the one found in flight failed; it has ended
}

// LogValue keeps state and input out of logs.
func (r *Result[S]) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("session", r.Session), slog.Int("turn", r.Turn), slog.String("run", r.RunID), slog.Bool("replayed", r.Replayed))
}

// A Step is one iteration of a settled turn.
type Step struct {
	Next  Next
	Took  time.Duration // to the millisecond
	Usage Usage
}
