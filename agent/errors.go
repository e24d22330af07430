package agent

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// The conditions that the methods return, ErrTooLong, which a Model returns, and ErrNoLoop. The package comment says
// what each means.
var (
	ErrExists   = errors.New("agent: session exists")
	ErrUnknown  = errors.New("agent: no such session")
	ErrPending  = errors.New("agent: calls wait for an answer")
	ErrNoCall   = errors.New("agent: no such call waits")
	ErrAnswered = errors.New("agent: the call was answered before")
	ErrKind     = errors.New("agent: the answer is of another kind")
	ErrStale    = errors.New("agent: the session has another version")
	ErrIdle     = errors.New("agent: nothing to continue or to stop")
	ErrReserved = errors.New("agent: only the agent itself changes this")
	ErrParted   = errors.New("agent: a call would lose its result")
	ErrTooLong  = errors.New("agent: what was said is longer than the model takes")
	ErrNoLoop   = errors.New("agent: Recorded and Once belong to no turn: their context needs Loop")
)

// refuse returns an error that a client may see.
func refuse(field string, why error) error {
	return fmt.Errorf("%w: %w", &orchestrator.InputError{Field: field, Reason: why.Error()}, why)
}
