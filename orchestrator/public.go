package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
)

// A Problem tells a client of an error. It holds nothing of the error's text.
type Problem struct {
	// Type names the condition, for programs: "busy", "unavailable". It is "ok" if there is no error.
	Type string

	// Status is a status of HTTP: 4xx if the client can do something, 5xx if it cannot.
	Status int

	// Retryable says that the same request may succeed later, with the same request id, if it has one.
	Retryable bool

	// RetryAfter is in whole seconds, for the header Retry-After. It is 0 unless Retryable is set.
	RetryAfter time.Duration

	// Text is one sentence in English for a user. Only of an *InputError it is the error's own text.
	Text string
}

// statusClientGone is what servers log for a client that did not wait.
const statusClientGone = 499

// problems are tried in order: the first error that fits says what a client is told.
var problems = []struct {
	err     error
	problem Problem
}{
	{ErrAbandoned, Problem{"stopped", 409, false, 0, "This request was stopped."}},
	{ErrRequestReused, Problem{"request-reused", 422, false, 0, "This request id was used for another input."}},
	{ErrParked, Problem{"parked", 409, false, 0, "An earlier message has to be looked at by a person first."}},
	{
		ErrSuspended,
		Problem{"suspended", 409, false, 0, "A person has to answer first, for this message or an earlier one."},
	},
	{
		ErrIndeterminate,
		Problem{
			"unknown-outcome", 504, true, time.Second,
			"It is not known yet how this ends. Send the same request again.",
		},
	},
	{ErrBusy, Problem{"busy", 409, true, time.Second, "An earlier message is still being answered."}},
	{ErrQueueFull, Problem{"queue-full", 429, true, 5 * time.Second, "Too many messages wait to be answered."}},
	{ErrInterrupted, Problem{"interrupted", 409, true, time.Second, "An earlier message is still being answered."}},
	{ErrShuttingDown, Problem{"shutting-down", 503, true, time.Second, "The service restarts."}},
	{ErrUnavailable, Problem{"unavailable", 503, true, 5 * time.Second, "The service is not available now."}},
	{errNotLogged, Problem{"unavailable", 503, true, 5 * time.Second, "The service is not available now."}},
	{ErrTooManyStuck, Problem{"unavailable", 503, true, 5 * time.Second, "The service is not available now."}},
	{ErrTurnTimeout, Problem{"timeout", 504, true, 5 * time.Second, "It took too long."}},
	{ErrIntentTimeout, Problem{"timeout", 504, true, 5 * time.Second, "It took too long."}},
	{ErrNothingToResume, Problem{"not-found", 404, false, 0, "There is nothing to resume."}},
	{checkpoint.ErrNotFound, Problem{"not-found", 404, false, 0, "It was not found."}},
	{checkpoint.ErrConflict, Problem{"conflict", 409, false, 0, "It is there already."}},
	{stream.ErrGone, Problem{"gone", 410, false, 0, "The events are no longer kept. Load the session again."}},
	{ErrNoStream, Problem{"no-stream", 404, false, 0, "No events are kept."}},
	{store.ErrRefused, Problem{"unavailable", 503, true, 5 * time.Second, "The service is not available now."}},
	{lock.ErrHandoff, Problem{"shutting-down", 503, true, time.Second, "The service restarts."}},
	{context.DeadlineExceeded, Problem{"timeout", 504, true, time.Second, "It took too long."}},
	{context.Canceled, Problem{"cancelled", statusClientGone, true, 0, "The request was cancelled."}},
}

// ofTheBot are the operations whose error is that of a function of the bot. An ErrBusy in it, say, is about a session
// that the function has called.
var ofTheBot = map[string]bool{"intent": true, "route": true, "evaluate": true, "then": true, "merge": true}

// ofTheTurn are the errors of such an operation that the engine itself has added.
var ofTheTurn = []error{ErrAbandoned, ErrSuspended, ErrIndeterminate, ErrTurnTimeout, ErrIntentTimeout}

// Public returns what a client may be told of an error of this package. An error that it does not know is 500. Log err
// itself, or [Error.RunID], beside it.
func Public(err error) Problem {
	if err == nil {
		return Problem{Type: "ok", Status: 200, Text: "OK."}
	}
	err = logtext.Shield(err)
	e, ok := errors.AsType[*Error](err)
	if ok && ofTheBot[e.Op] {
		return publicOfBot(err)
	}
	own := ok && e.RunID != "" // it is about the client's own run
	unknown := errors.Is(err, ErrIndeterminate)
	in, refused := errors.AsType[*InputError](err)
	_, stale := errors.AsType[*VersionError](err)
	switch {
	case refused && !unknown:
		return Problem{Type: "invalid", Status: 422, Text: logtext.Line(in.Error())}
	case isDrift(err) && !unknown:
		return Problem{"drift", 409, true, 5 * time.Second, "The service is being updated."}
	case errors.Is(err, ErrOwed) && !unknown:
		// What Deliver said is not about this input.
		return Problem{"owed", 409, true, 5 * time.Second, "An earlier reply has to be delivered first."}
	case stale:
		return Problem{Type: "conflict", Status: 409, Text: "It has changed since. Load it again."}
	case own && errors.Is(err, ErrSuspended):
		return accepted
	case storageFull(err):
		return noSpace
	}
	for _, p := range problems {
		if errors.Is(err, p.err) {
			return p.problem
		}
	}
	return Problem{Type: "internal", Status: 500, Text: "Something went wrong."}
}

// accepted is the Problem of a client's own turn that waits for a person.
var accepted = Problem{Type: "suspended", Status: 202, Text: "A person has to answer before this goes on."}

// noSpace is the Problem of a store without space. If the turn has begun, it goes on once there is some.
var noSpace = Problem{
	Type: "storage-full", Status: 507, Retryable: true, RetryAfter: 5 * time.Second,
	Text: "The service cannot store anything now. Send the same request again later.",
}

// The codes of a server that has no space left: PostgreSQL's SQLSTATE, and SQLite's result code.
const (
	pgDiskFull = "53100"
	sqliteFull = 13
)

// storageFull reports whether a store has no space left. It knows the drivers by their methods.
func storageFull(err error) bool {
	type stater interface {
		error
		SQLState() string
	}
	type coder interface {
		error
		Code() int
	}
	full := false
	_ = protect(func() error { // any error may have such a method
		if e, ok := errors.AsType[stater](err); ok {
			full = e.SQLState() == pgDiskFull
		} else if e, ok := errors.AsType[coder](err); ok {
			full = e.Code()&0xff == sqliteFull
		}
		return nil
	})
	return full
}

// publicOfBot is Public for an error of a function of the bot. Of what it wraps, only the errors that the engine has
// added are about this turn.
func publicOfBot(err error) Problem {
	if errors.Is(err, ErrSuspended) && !errors.Is(err, ErrAbandoned) {
		return accepted
	}
	for _, p := range problems {
		if errors.Is(err, p.err) && slices.Contains(ofTheTurn, p.err) {
			return p.problem
		}
	}
	return botFailed
}

// botFailed is the Problem of a turn that a function of the bot has failed.
var botFailed = Problem{Type: "bot-failed", Status: 502, Text: "The bot could not answer."}
