package flow

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/workflow"
)

var (
	// ErrTimeout is the error of a Wait that no signal has ended in time.
	ErrTimeout = errors.New("flow: no signal came in time")

	// ErrDeadline is the error of a run that has taken longer than its Deadline.
	ErrDeadline = errors.New("flow: run has taken longer than its deadline")

	// errHandOff is the cause of the end of a context whose process shuts down.
	errHandOff = errors.New("flow: process shuts down")

	// errInput says that the body was not called.
	errInput = errors.New("flow: the input does not decode")

	errOutside = fmt.Errorf("%w: the run was given back, or its body has ended: "+
		"a verb is called in a deferred function, or in a goroutine that the body has left", workflow.ErrInvalid)

	errLeft = fmt.Errorf("%w: the body ended while a verb of its Run was running in another goroutine: use flow.Go",
		workflow.ErrInvalid)

	errExit = errors.New("the branch has ended its goroutine")
)

// beside is the error of a call beside a verb.
func beside(what, name string) error {
	if name != "" {
		what += fmt.Sprintf(" %q", name)
	}
	return fmt.Errorf("%w: %s is called while another verb of its Run is running: "+
		"use flow.Go, and the Run of the branch", workflow.ErrInvalid, what)
}

// RetryAfter marks an error with the time after which another attempt may help, as a Retry-After header says. It
// overrides the pause of the policy, not the number of attempts. RetryAfter(nil, d) is nil. It is retry.After.
func RetryAfter(err error, d time.Duration) error { return retry.After(err, d) }

// A StepError is the end of a step whose attempts are used up.
type StepError struct {
	Step     string
	Attempts int
	Text     string // of the last error; this much survives a replay
	Err      error  // the last error, if this process saw it: no decision of a body should rest on it
}

// Error names the step and its last error.
func (e *StepError) Error() string {
	return fmt.Sprintf("step %s failed after %d attempts: %s", e.Step, e.Attempts, e.Text)
}

// Unwrap returns the last error, if this process saw it.
func (e *StepError) Unwrap() error { return e.Err }

// A RunError is the end of a run that failed or was cancelled.
type RunError struct{ Run workflow.Run }

// Error says how the run ended.
func (e *RunError) Error() string {
	text := fmt.Sprintf("run %s of workflow %q: %s", e.Run.ID, e.Run.Workflow, e.Run.Status)
	if e.Run.Error != "" {
		text += ": " + e.Run.Error
	}
	return text
}

// Is reports whether the run has failed with target, which is ErrDeadline.
func (e *RunError) Is(target error) bool {
	return target == ErrDeadline && e.Run.Status == workflow.Failed && e.Run.Error == ErrDeadline.Error()
}

// A DriftError says that the code calls another step than the journal has. It shows both. The run is held, and nothing
// runs.
type DriftError struct {
	Run, Step string
	Kind      workflow.Kind
	Index     int
	Stored    workflow.Step
}

// Error shows what the code calls, and what the journal has.
func (e *DriftError) Error() string {
	calls := "ends"
	if e.Step != "" {
		calls = fmt.Sprintf("calls %s %q", e.Kind, e.Step)
	}
	return fmt.Sprintf("flow: run %s: at place %d the code %s, and the journal has %s %q at place %d",
		e.Run, e.Index, calls, e.Stored.Kind, e.Stored.Name, e.Stored.Index)
}

// A panicError is the panic of a function of the program.
type panicError struct {
	value any
	stack []byte
}

// Error returns the value.
func (e *panicError) Error() string { return "panic: " + logtext.Text(fmt.Errorf("%v", e.value)) }

// textOf returns the text of an error of the program, as a store keeps it.
func textOf(err error) string { return workflow.ErrorText(logtext.Text(err)) }
