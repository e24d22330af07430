package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A Problem is what a client may be told of an error. It holds nothing of the error's text.
type Problem struct {
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
	{ErrAbandoned, Problem{409, false, 0, "This request was stopped."}},
	{ErrRequestReused, Problem{422, false, 0, "This request id was used for another input."}},
	{ErrParked, Problem{409, false, 0, "An earlier message has to be looked at by a person first."}},
	{ErrSuspended, Problem{409, false, 0, "A person has to answer first, for this message or an earlier one."}},
	{
		ErrIndeterminate,
		Problem{504, true, time.Second, "It is not known yet how this ends. Send the same request again."},
	},
	{ErrOwed, Problem{409, true, 5 * time.Second, "An earlier reply has to be delivered first."}},
	{ErrBusy, Problem{409, true, time.Second, "An earlier message is still being answered."}},
	{ErrInterrupted, Problem{409, true, time.Second, "An earlier message is still being answered."}},
	{ErrShuttingDown, Problem{503, true, time.Second, "The service restarts."}},
	{ErrUnavailable, Problem{503, true, 5 * time.Second, "The service is not available now."}},
	{errNotLogged, Problem{503, true, 5 * time.Second, "The service is not available now."}},
	{ErrTooManyStuck, Problem{503, true, 5 * time.Second, "The service is not available now."}},
	{ErrTurnTimeout, Problem{504, true, 5 * time.Second, "It took too long."}},
	{ErrIntentTimeout, Problem{504, true, 5 * time.Second, "It took too long."}},
	{ErrNothingToResume, Problem{404, false, 0, "There is nothing to resume."}},
	{checkpoint.ErrNotFound, Problem{404, false, 0, "It was not found."}},
	{checkpoint.ErrConflict, Problem{409, false, 0, "It is there already."}},
	{checkpoint.ErrRefused, Problem{503, true, 5 * time.Second, "The service is not available now."}},
	{snapshot.ErrRefused, Problem{503, true, 5 * time.Second, "The service is not available now."}},
	{lock.ErrHandoff, Problem{503, true, time.Second, "The service restarts."}},
	{context.DeadlineExceeded, Problem{504, true, time.Second, "It took too long."}},
	{context.Canceled, Problem{statusClientGone, true, 0, "The request was cancelled."}},
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
		return Problem{Status: 200, Text: "OK."}
	}
	bots := false
	if e, ok := errors.AsType[*Error](err); ok {
		bots = ofTheBot[e.Op]
	}
	if errors.Is(err, ErrOwed) && !bots && !isDrift(err) && !errors.Is(err, ErrIndeterminate) {
		// What Deliver said is not about this input.
		return Problem{409, true, 5 * time.Second, "An earlier reply has to be delivered first."}
	}
	if in, ok := errors.AsType[*InputError](err); ok && !bots && !errors.Is(err, ErrIndeterminate) {
		return Problem{Status: 400, Text: logtext.Line(in.Error())}
	}
	if isDrift(err) && !bots && !errors.Is(err, ErrIndeterminate) {
		return Problem{503, true, 5 * time.Second, "The service is being updated."}
	}
	for _, p := range problems {
		if errors.Is(err, p.err) && (!bots || slices.Contains(ofTheTurn, p.err)) {
			return p.problem
		}
	}
	return Problem{Status: 500, Text: "Something went wrong."}
}
