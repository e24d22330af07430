package orchestrator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An Error is what every method returns. Op says how far the turn came and whose failure it is: "intent", "route" and "merge"
// are the bot's own. A turn that failed is over. One that may still settle says so: it is ErrIndeterminate, ErrSuspended or
// ErrParked; the same request id again, or Resume, finds out.
type Error struct {
	Op      string // "input", "claim", "drift", "begin", "adopt", "route", "intent", "merge", "evaluate", "save", "settle", or the method
	Session string
	Turn    int
	RunID   string // "" before the turn has one
	Intent  string
	Usage   Usage // spent all the same
	Err     error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("orchestrator: " + e.Op)
	if e.Intent != "" {
		b.WriteString(" " + strconv.Quote(e.Intent))
	}
	if e.Session != "" {
		b.WriteString(": session " + strconv.Quote(e.Session))
	}
	if e.RunID != "" {
		fmt.Fprintf(&b, " turn %d", e.Turn)
	}
	return b.String() + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// A DriftError holds the signatures of a stored row and of the definition.
type DriftError struct{ Saved, Current string }

func (e *DriftError) Error() string {
	return fmt.Sprintf("written by definition %.12s, this is %.12s, and there is no Migrate", e.Saved, e.Current)
}

// An InputError names what is wrong with an input. Begin may return one.
type InputError struct{ Field, Reason string }

func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// A StateError says that a turn left a state which is larger than Limits.State. The turn has failed, and the session
// is as it was before.
type StateError struct {
	Size, Limit int   // in bytes, as Limits.State counts
	Err         error // what is too much: the size, the depth, or the number of values
}

func (e *StateError) Error() string {
	return fmt.Sprintf("state of %d bytes, and Limits.State is %d: %v: keep less in the state, or raise the limit",
		e.Size, e.Limit, e.Err)
}

func (e *StateError) Unwrap() error { return e.Err }

// A PanicError is what became of a function of the bot that panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var (
	ErrBusy            = owner.ErrBusy
	ErrInterrupted     = errors.New("an earlier run is in flight")
	ErrParked          = snapshot.ErrParked
	ErrSuspended       = errors.New("turn waits for an answer")
	ErrNothingToResume = errors.New("nothing to resume")
	ErrShuttingDown    = owner.ErrShuttingDown
	ErrAbandoned       = owner.ErrAbandoned
	ErrIndeterminate   = errors.New("outcome unknown")
	ErrRequestReused   = errors.New("request id used for another input")
	ErrMaxIterations   = errors.New("too many iterations")
	ErrMerge           = errors.New("branches changed the same field")
	ErrReentrant       = owner.ErrReentrant
	ErrTooManyStuck    = errors.New("too many functions ignore the end of their context")
	ErrNoSession       = errors.New("called outside a turn, and Tool was given no session function")
)

// errStuck says that a function went on after its context had ended. What it still does is not heard.
var errStuck = errors.New("a function ignored the end of its context")

// errGoexit says that a function of the bot ended its goroutine, as the FailNow of a test does.
var errGoexit = errors.New("the function has ended its goroutine")

// An outsideError is what a function of the bot returned, or what became of another run. What it says of a turn is not said of
// the one that it is an error of.
type outsideError struct{ err error }

// ofOneTurn are the errors that mean something for the very turn that they are said of.
var ofOneTurn = []error{ErrIndeterminate, ErrParked, ErrSuspended, errStuck, errNotSaved}

func outside(err error) error {
	if err == nil {
		return nil
	}
	for _, target := range ofOneTurn {
		if errors.Is(err, target) {
			return outsideError{err}
		}
	}
	if isDrift(err) {
		return outsideError{err}
	}
	return err
}

func (e outsideError) Error() string { return e.err.Error() }

// Hidden is for logs, which show the types of what the bot's functions return.
func (e outsideError) Hidden() error { return e.err }

func (e outsideError) Is(target error) bool {
	for _, hidden := range ofOneTurn {
		if errors.Is(target, hidden) {
			return false
		}
	}
	return errors.Is(e.err, target)
}

func (e outsideError) As(target any) bool {
	switch target.(type) {
	case **Error, **DriftError:
		return false
	}
	return errors.As(e.err, target)
}

// indeterminate says of err that the turn may still settle.
func indeterminate(err error) error {
	if errors.Is(err, ErrIndeterminate) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrIndeterminate, err)
}
