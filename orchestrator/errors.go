package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/snapshot"
)

// An Error is the error of every method. Op says how far the turn came and whose failure it is: "intent", "route",
// "then" and "merge" are the bot's own. A turn that failed is over. If the turn may still settle, the error is
// ErrIndeterminate, ErrSuspended or ErrParked. To find out, repeat the call with the same request id, or call Resume.
type Error struct {
	// Op is "input", "claim", "drift", "begin", "adopt", "log", "route", "intent", "merge", "evaluate", "then", "save",
	// "settle", or the method.
	Op      string
	Session string
	Turn    int

	// RunID is "" before the turn has one.
	RunID  string
	Intent string

	// Usage is the cost of the turn so far, although it failed.
	Usage Usage
	Err   error

	// refused says that Begin has returned the error, and nothing was recorded.
	refused bool
}

// Error returns the operation, the intent, the session, the turn and the wrapped error, in one line.
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
	return b.String() + ": " + logtext.Line(logtext.Text(e.Err))
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// A DriftError says that this process cannot use stored data without losing something of it: the definition that wrote
// the data has members or intents that this one does not have. The call has changed nothing. Another process, whose
// definition has them, can use the data. Migrate and Force are other ways out.
type DriftError struct {
	// Members are the paths of the members of the stored state that S would drop, or cannot hold: "orders[].note".
	// About 20 are named at most.
	Members []string

	// Intents are those that a run in flight has run, or is about to run, and that this definition does not have.
	Intents []string

	// Saved is the signature of the definition that wrote the data, and Current that of this definition, if they are
	// known. They may be equal: fields do not count.
	Saved, Current string

	// Err says why the state cannot be decoded; nil if it can.
	Err error
}

// Error names the definitions, shortened, the members and the intents.
func (e *DriftError) Error() string {
	var b strings.Builder
	b.WriteString("stored by another version")
	if e.Saved != e.Current && e.Saved != "" && e.Current != "" {
		fmt.Fprintf(&b, ", of definition %.12s, and this is %.12s", e.Saved, e.Current)
	}
	if len(e.Members) > 0 {
		fmt.Fprintf(&b, ": the state has no place for %q", e.Members)
	}
	if len(e.Intents) > 0 {
		fmt.Fprintf(&b, ": no intents %q", e.Intents)
	}
	if e.Err != nil {
		b.WriteString(": " + logtext.Text(e.Err))
	}
	return b.String()
}

// Unwrap returns an error that reads like Err, and in which errors.Is and errors.As find what they find in Err. If a
// method of Err panics, it finds nothing.
func (e *DriftError) Unwrap() error { return logtext.Shield(e.Err) }

// An InputError names the fault of an input. Begin may return one.
type InputError struct{ Field, Reason string }

// Error returns the field and the reason.
func (e *InputError) Error() string { return e.Field + ": " + e.Reason }

// A VersionError says that a session does not have the version that Put has asked for. Nothing is written. A version is
// the number of settled turns.
type VersionError struct{ Want, Now int }

// Error returns both versions.
func (e *VersionError) Error() string {
	return fmt.Sprintf("the session has version %d, and not %d", e.Now, e.Want)
}

// A StateError says that a turn left a state that is larger than Limits.State, or decided to run ForEach of items that
// are. The turn has failed, and the session is as it was before.
type StateError struct {
	// Of is "state" or "items".
	Of string

	// Size and Limit are in bytes, as Limits.State counts.
	Size, Limit int

	// Err says which bound is exceeded: the size, the depth, or the number of values.
	Err error
}

// Error returns the size, the limit and the cure.
func (e *StateError) Error() string {
	return fmt.Sprintf("%s of %d bytes, and Limits.State is %d: %s: keep less in the %s, or raise the limit",
		e.Of, e.Size, e.Limit, logtext.Text(e.Err), e.Of)
}

// Unwrap returns Err.
func (e *StateError) Unwrap() error { return e.Err }

// A PanicError says that a function of the bot panicked.
type PanicError struct {
	Value any
	Stack []byte
}

// Error returns the value of the panic. If the value cannot be printed, Error returns its type.
func (e *PanicError) Error() (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("panic: a %T", e.Value)
		}
	}()
	return fmt.Sprintf("panic: %v", e.Value)
}

// Unwrap returns nil if the value is no error. Otherwise it returns an error in which errors.Is and errors.As find what
// they find in the value.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return logtext.Private(err)
}

// protect turns a panic into an error.
func protect(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return fn()
}

// panicked reports whether err is the panic of a function of the bot.
func panicked(err error) bool {
	_, ok := errors.AsType[*PanicError](err)
	return ok
}

// An InDoubtError lists the effects of a run whose outcome is not known, and those of the tools that the run has called
// and that may still go on. It is ledger.ErrInDoubt. If a function of the
// bot returns it, the turn does not fail: told as failed, it would be tried again, and pay twice. If Ask is set, the
// turn is suspended until a person has answered for all of Effects: see [ledger.Resolve]. Otherwise it waits and is
// tried again.
type InDoubtError struct {
	RunID   string
	Effects []string // their ids; none if a tool may go on, and no effect of it is known
	Ask     bool     // a person has to answer

	// Err is the error of the last attempt. It is lock.ErrHeld if another run is at work on the effect.
	Err error

	// pause is for how long nothing is known to change; 0 if that is not known. It is not the run's fault, and no
	// attempt counts: another run is at work on the effect, or it is too early to believe that it has not happened.
	pause time.Duration

	// unasked says that Effects are answered, and that the code has not asked for them: see allAsked.
	unasked bool
}

// Error returns the ids of the effects, and the reason.
func (e *InDoubtError) Error() string {
	text := "effects in doubt"
	if len(e.Effects) == 1 {
		text = "effect in doubt"
	}
	if len(e.Effects) > 0 {
		text += ": " + strings.Join(e.Effects, ", ")
	}
	if e.Err == nil {
		return text
	}
	return text + ": " + logtext.Text(e.Err)
}

// Unwrap returns ledger.ErrInDoubt, and Err.
func (e *InDoubtError) Unwrap() []error {
	if e.Err == nil {
		return []error{ledger.ErrInDoubt}
	}
	return []error{ledger.ErrInDoubt, e.Err}
}

// A resultError says that an effect has happened, and that its result cannot be recorded.
type resultError struct{ err error }

// Error says that the effect ran.
func (e *resultError) Error() string {
	return "it ran, and its result cannot be recorded: " + e.err.Error()
}

// Unwrap returns the reason.
func (e *resultError) Unwrap() error { return e.err }

// notDone reports whether err says that an effect did not happen. The MarshalJSON of its result cannot say so.
func notDone(err error) bool {
	_, ran := errors.AsType[*resultError](err)
	return !ran && ledger.IsNotDone(err)
}

// stackOf returns the stack of the panic that err tells of.
func stackOf(err error) string {
	if p, ok := errors.AsType[*PanicError](err); ok {
		return string(p.Stack)
	}
	return ""
}

// The conditions that an Error may wrap. The package comment says what each means.
var (
	ErrBusy            = owner.ErrBusy
	ErrUnavailable     = owner.ErrUnavailable
	ErrInterrupted     = errors.New("an earlier run is in flight")
	ErrOwed            = errors.New("an earlier reply is not delivered")
	ErrParked          = snapshot.ErrParked
	ErrSuspended       = errors.New("turn waits for an answer")
	ErrNothingToResume = errors.New("nothing to resume")
	ErrShuttingDown    = owner.ErrShuttingDown
	ErrAbandoned       = owner.ErrAbandoned
	ErrIndeterminate   = errors.New("outcome unknown")
	ErrRequestReused   = errors.New("request id used for another input")
	ErrMaxIterations   = errors.New("too many iterations")
	ErrTurnTimeout     = timeoutError("the turn took longer than Limits.TurnTimeout")
	ErrIntentTimeout   = timeoutError("the intent took longer than its Timeout")
	ErrMerge           = errors.New("branches changed the same field")
	ErrReentrant       = owner.ErrReentrant
	ErrTooManyStuck    = errors.New("too many functions ignore the end of their context")
	ErrNoLedger        = errors.New("Once was called, and Options.Ledger is nil")
	ErrNoStream        = errors.New("Options.Stream is nil: no events are kept")
	ErrQueueFull       = errors.New("too many inputs wait")
	ErrNoInbox         = errors.New("Enqueue was called, and Options.Inbox is nil")
	ErrNoDefinition    = errors.New("the process does not have the Definition of the bot")
	ErrNoSession       = errors.New("called outside a turn, and Tool was given no session function")
)

// timeoutError returns an error that is also context.DeadlineExceeded, which its text does not repeat.
func timeoutError(text string) error { return &timeout{text} }

type timeout struct{ text string }

func (e *timeout) Error() string { return e.text }

func (e *timeout) Unwrap() error { return context.DeadlineExceeded }

// timedOut adds to the error of a function why the engine has ended the function's context. If it was not the engine,
// err stays as it is.
func timedOut(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	cause := context.Cause(ctx)
	switch {
	case cause != ErrTurnTimeout && cause != ErrIntentTimeout: //nolint:errorlint // a cause of ours is not wrapped
		return err
	case errors.Is(err, cause):
		return err
	case logtext.Public(err) == context.DeadlineExceeded: //nolint:errorlint // an error that says no more
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// errStuck says that a function went on after its context had ended. The engine no longer hears what that function
// does.
var errStuck = errors.New("a function ignored the end of its context")

// errUnasked is why a run does not settle that has effects which its code does not ask for: see allAsked.
var errUnasked = errors.New("an earlier attempt has left it, and the code that runs now has not called Once for it; " +
	"Resume with Force settles the turn all the same")

// errOver refuses Once after its function has returned.
var errOver = errors.New("Once: the function that the turn belongs to has returned")

// errRecordOver refuses Record after its function has returned.
var errRecordOver = errors.New("Record: the function that the turn belongs to has returned")

// errNotLogged marks an error of the turn log.
var errNotLogged = errors.New("not recorded in the turn log")

// errNotSaved marks an error of the snapshot store: the run is as it was last saved.
var errNotSaved = errors.New("not saved")

// errGoexit says that a function of the bot ended its goroutine, as the FailNow of a test does.
var errGoexit = errors.New("the function has ended its goroutine")

// An outsideError wraps the error of a function of the bot, or of another run. It hides the sentinels of another turn,
// so that errors.Is does not match them for this one.
type outsideError struct{ err error }

// ofOneTurn are the errors that say something about one turn only: the turn that returned them.
var ofOneTurn = []error{
	ErrIndeterminate, ErrParked, ErrSuspended, ErrTurnTimeout, ErrIntentTimeout, errStuck, errNotSaved,
}

// foreign returns the error of a function of the bot, as the engine handles it from then on: none of its methods can
// end the process, logs do not show its text, and it says nothing of this turn that only the engine says.
func foreign(err error) error { return outside(logtext.Private(err)) }

// outside hides what err says of another turn. A foreign error has to be shielded before: see foreign.
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

// Hidden returns the wrapped error to the logs, which show the types of what the bot's functions return.
func (e outsideError) Hidden() error { return e.err }

// Is reports whether the wrapped error is target, unless target is one of ofOneTurn.
func (e outsideError) Is(target error) bool {
	asked := logtext.Shield(target) // it may be foreign, too
	for _, hidden := range ofOneTurn {
		if errors.Is(asked, hidden) {
			return false
		}
	}
	return errors.Is(e.err, target)
}

// As finds target in the wrapped error, unless target is an *Error or a *DriftError.
func (e outsideError) As(target any) bool {
	switch target.(type) {
	case **Error, **DriftError:
		return false
	}
	return errors.As(e.err, target)
}

// indeterminate adds ErrIndeterminate to err: the turn may still settle.
func indeterminate(err error) error {
	if errors.Is(err, ErrIndeterminate) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrIndeterminate, err)
}

// errNoAnswer says that a store has not answered a read in time. The deadline is ours, and not the caller's.
var errNoAnswer = errors.New("the store has not answered")

// unavailable adds ErrUnavailable to the error of a store that took no call, or answered no read. The caller has begun
// nothing.
func unavailable(err error) error {
	if !isAway(err) || errors.Is(err, ErrUnavailable) || errors.Is(err, ErrIndeterminate) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// isAway reports whether err is of a store that took no call, or answered no read.
func isAway(err error) bool { return owner.Refused(err) || errors.Is(err, errNoAnswer) }

func isDrift(err error) bool {
	_, ok := errors.AsType[*DriftError](err)
	return ok
}
