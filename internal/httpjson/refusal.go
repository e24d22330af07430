// Package httpjson is what the HTTP handlers of this module have in common: bodies of JSON with a bound, routes, and
// documents of application/problem+json. It knows no store and no engine.
package httpjson

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// A Refusal is an error that says what a client is told, and nothing else.
type Refusal struct {
	Type   string // names the condition, for programs
	Status int
	Text   string // one sentence for a user
	Detail string // "" if the text says it all

	// Retryable says that the same request may succeed later. RetryAfter is for the header, in whole seconds.
	Retryable  bool
	RetryAfter time.Duration
}

// Error names the condition.
func (e *Refusal) Error() string { return "request refused: " + e.Type }

// Because returns the refusal with a detail.
func (e *Refusal) Because(detail string) *Refusal {
	with := *e
	with.Detail = detail
	return &with
}

// Refuse returns a refusal that is no use to repeat.
func Refuse(status int, kind, text string) *Refusal {
	return &Refusal{Type: kind, Status: status, Text: text}
}

// What every handler refuses.
var (
	ErrBadRequest   = Refuse(http.StatusBadRequest, "bad-request", "The request is malformed.")
	ErrUnauthorized = Refuse(http.StatusUnauthorized, "unauthorized", "The client is not known.")
	ErrForbidden    = Refuse(http.StatusForbidden, "denied", "The client may not do this.")
	ErrNotFound     = Refuse(http.StatusNotFound, "not-found", "It was not found.")
	ErrMethod       = Refuse(http.StatusMethodNotAllowed, "method", "The method is not allowed here.")
	ErrSlow         = Refuse(http.StatusRequestTimeout, "slow-request", "The request took too long to arrive.")
	ErrTooLarge     = Refuse(http.StatusRequestEntityTooLarge, "too-large", "The request is too large.")
	ErrContentType  = Refuse(http.StatusUnsupportedMediaType, "content-type", "The type of the body is not taken.").
			Because("The header Content-Type has to be application/json.")
)

// A Problem is a document of application/problem+json.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Retryable bool   `json:"retryable,omitempty"`
}

// WriteProblem writes a document with its status. retryAfter is the header, unless it is 0.
func WriteProblem(w http.ResponseWriter, status int, retryAfter time.Duration, doc any) {
	h := w.Header()
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	}
	h.Set("Content-Type", "application/problem+json")
	Guard(h)
	w.WriteHeader(status)
	_, _ = w.Write(Marshal(doc))
}

// Guard sets the headers of an answer that is not for all: no cache keeps it, and no browser guesses its type.
func Guard(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// Marshal returns a document, which has no value that JSON lacks.
func Marshal(doc any) []byte {
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// WritePatience is how long a write may take. A client that takes nothing for so long is cut off.
const WritePatience = 15 * time.Second

// AllowWrite gives the next write its time, whatever the server's own WriteTimeout.
func AllowWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(WritePatience))
}

// Reply writes a document. If JSON has no place for it, nothing is written yet.
func Reply(w http.ResponseWriter, status int, doc any) error {
	b, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	AllowWrite(w)
	w.Header().Set("Content-Type", "application/json")
	Guard(w.Header())
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
	return nil
}
