package turnhttp

import (
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A refusal is an error of this package itself: what a client is told, and nothing else.
type refusal = httpjson.Refusal

// What this package refuses by itself. The package comment lists them, and those of package httpjson.
var (
	errBadRequest   = httpjson.ErrBadRequest
	errUnauthorized = httpjson.ErrUnauthorized
	errForbidden    = httpjson.ErrForbidden
	errNotFound     = httpjson.ErrNotFound

	errKeyMissing = httpjson.Refuse(http.StatusBadRequest, "key-missing", "The header Idempotency-Key is missing.")
	errAnswered   = httpjson.Refuse(http.StatusConflict, "answered", "Another answer was first.")
	errChanged    = httpjson.Refuse(http.StatusConflict, "changed", "The question has changed. Look at it again.")
	errExpired    = httpjson.Refuse(http.StatusGone, "expired", "The question has expired.")
	errHeld       = &refusal{
		Type: "held", Status: http.StatusConflict, Retryable: true, RetryAfter: 5 * time.Second,
		Text: "A process may be at work on it.",
	}
	errTurnFailed = httpjson.Refuse(http.StatusBadGateway, "turn-failed", "The turn has failed.")
	errReaders    = &refusal{
		Type: "too-many-readers", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: 5 * time.Second,
		Text: "Too many readers are connected.",
	}
	errNotOpen = &refusal{
		Type: "unavailable", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: time.Second,
		Text: "The service is not available now.",
	}
)

// A storeError is an error of the inbox or the ledger. If orchestrator.Public does not know the error, the storeError
// is an orchestrator.ErrUnavailable.
type storeError struct{ err error }

func (e *storeError) Error() string { return logtext.Text(e.err) }

func (e *storeError) Unwrap() error { return e.err }

// Is makes the store's error one that orchestrator.Public knows, for a program that is told of it by OnError.
func (e *storeError) Is(target error) bool {
	return target == orchestrator.ErrUnavailable && orchestrator.Public(e.err).Status == http.StatusInternalServerError
}

// public is orchestrator.Public for the errors of this package too.
func public(err error) orchestrator.Problem {
	err = logtext.Shield(err)
	r, ok := errors.AsType[*refusal](err)
	if _, of := errors.AsType[*orchestrator.Error](err); !ok && !of && errors.Is(err, ErrDenied) {
		r, ok = errForbidden, true
	}
	if !ok {
		return orchestrator.Public(err)
	}
	return orchestrator.Problem{
		Type: r.Type, Status: r.Status, Retryable: r.Retryable, RetryAfter: r.RetryAfter, Text: r.Text,
	}
}

// Status returns the status of an error, as orchestrator.Public says. ErrDenied is 403, and nil 200.
func Status(err error) int { return public(err).Status }

// A problem is a document of application/problem+json.
type problem struct {
	Type      string   `json:"type"`
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Detail    string   `json:"detail,omitempty"`
	Run       string   `json:"run,omitempty"`
	Retryable bool     `json:"retryable,omitempty"`
	Effects   []string `json:"effects,omitempty"`
}

// invalidTitle is the title of the problem "invalid", whose text differs each time.
const invalidTitle = "The input cannot be taken."

// problemOf returns the document of an error. It holds what orchestrator.Public says, the id of the run, and the
// effects that a person has to answer for.
func problemOf(err error) problem {
	err = logtext.Shield(err)
	doc := problemDoc(public(err))
	if r, ok := errors.AsType[*refusal](err); ok {
		doc.Detail = r.Detail
	}
	if e, ok := errors.AsType[*orchestrator.Error](err); ok {
		doc.Run = e.RunID
	}
	if d, ok := errors.AsType[*orchestrator.InDoubtError](err); ok && errors.Is(err, orchestrator.ErrSuspended) {
		doc.Effects = d.Effects
	}
	return doc
}

// problemDoc returns the document of what a client is told.
func problemDoc(p orchestrator.Problem) problem {
	doc := problem{Type: "/problems/" + p.Type, Title: p.Text, Status: p.Status, Retryable: p.Retryable}
	if p.Type == "invalid" {
		doc.Title, doc.Detail = invalidTitle, p.Text
	}
	return doc
}

// Problem writes err as application/problem+json, with the status and the header Retry-After that orchestrator.Public
// says. The document never holds a text of the bot, of a store or of a state: see the package comment. It is for routes
// of a program's own.
func Problem(w http.ResponseWriter, _ *http.Request, err error) {
	p := public(err)
	httpjson.WriteProblem(w, p.Status, p.RetryAfter, problemOf(err))
}
