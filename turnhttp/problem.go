package turnhttp

import (
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
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
)

// Status returns the status of an error, as orchestrator.Public says. ErrDenied is 403, and nil 200.
func Status(err error) int { return front.Public(err).Status }

// Problem writes err as application/problem+json, with the status and the header Retry-After that orchestrator.Public
// says. The document never holds a text of the bot, of a store or of a state: see the package comment. It is for routes
// of a program's own. The types of these documents begin with "/problems/", whatever Options.ProblemBase says.
func Problem(w http.ResponseWriter, _ *http.Request, err error) { front.Write(w, err) }
