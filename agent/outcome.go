package agent

import (
	"encoding/json"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// An Outcome is a settled turn.
type Outcome[C any] struct {
	Session, Run string
	Version      int // of the session: the number of its turns
	Status       Status
	Reason       Reason
	Text         string          // what the agent has said last
	Result       json.RawMessage // what it has finished with; see As
	Pending      []Pending
	Interrupt    *Interrupt
	Custom       C
	Usage        orchestrator.Usage
	Replayed     bool
}

func outcome[C any](r *orchestrator.Result[State[C]]) *Outcome[C] {
	s := &r.State
	return &Outcome[C]{
		Session: r.Session, Run: r.RunID, Version: r.Turn + 1, Status: s.Status, Reason: s.Reason, Text: s.Output,
		Result: s.Result, Pending: s.missing(), Interrupt: s.Interrupt, Custom: s.Custom, Usage: r.Usage,
		Replayed: r.Replayed,
	}
}
