package turnhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// A refusal is an error of this package itself: what a client is told, and nothing else.
type refusal struct {
	orchestrator.Problem
	detail string // "" if the text says it all
}

func (e *refusal) Error() string { return "turnhttp: " + e.Type }

// refuse returns a refusal that is no use to repeat.
func refuse(status int, kind, text string) *refusal {
	return &refusal{Problem: orchestrator.Problem{Type: kind, Status: status, Text: text}}
}

// because returns the refusal with a detail.
func (e *refusal) because(detail string) *refusal { return &refusal{e.Problem, detail} }

// What this package refuses by itself. The package comment lists them.
var (
	errBadRequest   = refuse(http.StatusBadRequest, "bad-request", "The request is malformed.")
	errKeyMissing   = refuse(http.StatusBadRequest, "key-missing", "The header Idempotency-Key is missing.")
	errUnauthorized = refuse(http.StatusUnauthorized, "unauthorized", "The client is not known.")
	errForbidden    = refuse(http.StatusForbidden, "denied", "The client may not do this.")
	errNotFound     = refuse(http.StatusNotFound, "not-found", "It was not found.")
	errMethod       = refuse(http.StatusMethodNotAllowed, "method", "The method is not allowed here.")
	errSlow         = refuse(http.StatusRequestTimeout, "slow-request", "The request took too long to arrive.")
	errAnswered     = refuse(http.StatusConflict, "answered", "Another answer was first.")
	errChanged      = refuse(http.StatusConflict, "changed", "The question has changed. Look at it again.")
	errExpired      = refuse(http.StatusGone, "expired", "The question has expired.")
	errTooLarge     = refuse(http.StatusRequestEntityTooLarge, "too-large", "The request is too large.")
	errContentType  = refuse(http.StatusUnsupportedMediaType, "content-type", "The type of the body is not taken.").
			because("The header Content-Type has to be application/json.")
	errHeld = &refusal{Problem: orchestrator.Problem{
		Type: "held", Status: http.StatusConflict, Retryable: true, RetryAfter: 5 * time.Second,
		Text: "A process may be at work on it.",
	}}
	errTurnFailed = refuse(http.StatusBadGateway, "turn-failed", "The turn has failed.")
	errReaders    = &refusal{Problem: orchestrator.Problem{
		Type: "too-many-readers", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: 5 * time.Second,
		Text: "Too many readers are connected.",
	}}
	errNotOpen = &refusal{Problem: orchestrator.Problem{
		Type: "unavailable", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: time.Second,
		Text: "The service is not available now.",
	}}
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
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.Problem
	}
	if _, ok := errors.AsType[*orchestrator.Error](err); !ok && errors.Is(err, ErrDenied) {
		return errForbidden.Problem
	}
	return orchestrator.Public(err)
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
	p := public(err)
	doc := problem{Type: "/problems/" + p.Type, Title: p.Text, Status: p.Status, Retryable: p.Retryable}
	if p.Type == "invalid" {
		doc.Title, doc.Detail = invalidTitle, p.Text
	}
	if r, ok := errors.AsType[*refusal](err); ok {
		doc.Detail = r.detail
	}
	if e, ok := errors.AsType[*orchestrator.Error](err); ok {
		doc.Run = e.RunID
	}
	if d, ok := errors.AsType[*orchestrator.InDoubtError](err); ok && errors.Is(err, orchestrator.ErrSuspended) {
		doc.Effects = d.Effects
	}
	return doc
}

// Problem writes err as application/problem+json, with the status and the header Retry-After that orchestrator.Public
// says. The document never holds a text of the bot, of a store or of a state: see the package comment. It is for routes
// of a program's own.
func Problem(w http.ResponseWriter, _ *http.Request, err error) {
	p, doc := public(err), problemOf(err)
	h := w.Header()
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	h.Set("Content-Type", "application/problem+json")
	guard(h)
	w.WriteHeader(p.Status)
	_, _ = w.Write(marshal(doc))
}

// guard sets the headers of what belongs to a session: no cache keeps it, and no browser guesses its type.
func guard(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// marshal returns a document of this package, which has no value that JSON lacks.
func marshal(doc any) []byte {
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}
