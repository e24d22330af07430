// Package front has what the routes of a bot and its front ends share: problem documents, questions as they see them,
// and server-sent events.
package front

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// ErrDenied is turnhttp.ErrDenied.
var ErrDenied = errors.New("turnhttp: denied")

// Public is orchestrator.Public for refusals too, and for ErrDenied.
func Public(err error) orchestrator.Problem {
	err = logtext.Shield(err)
	r, ok := errors.AsType[*httpjson.Refusal](err)
	if _, of := errors.AsType[*orchestrator.Error](err); !ok && !of && errors.Is(err, ErrDenied) {
		r, ok = httpjson.ErrForbidden, true
	}
	if !ok {
		return orchestrator.Public(err)
	}
	return orchestrator.Problem{
		Type: r.Type, Status: r.Status, Retryable: r.Retryable, RetryAfter: r.RetryAfter, Text: r.Text,
	}
}

// A Problem is a document of application/problem+json.
type Problem struct {
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

// Of returns the document of an error. It holds what orchestrator.Public says, the id of the run, and the effects that
// a person has to answer for.
func Of(err error) Problem {
	err = logtext.Shield(err)
	doc := Doc(Public(err))
	if r, ok := errors.AsType[*httpjson.Refusal](err); ok {
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

// Doc returns the document of what a client is told.
func Doc(p orchestrator.Problem) Problem {
	doc := Problem{Type: httpjson.Problems + p.Type, Title: p.Text, Status: p.Status, Retryable: p.Retryable}
	if p.Type == "invalid" {
		doc.Title, doc.Detail = invalidTitle, p.Text
	}
	return doc
}

// Below returns the document with a type that begins with base.
func (p Problem) Below(base string) Problem {
	p.Type = base + strings.TrimPrefix(p.Type, httpjson.Problems)
	return p
}

// Write answers with the document of an error.
func Write(w http.ResponseWriter, err error) {
	p := Public(err)
	httpjson.WriteProblem(w, p.Status, p.RetryAfter, Of(err))
}

// Empty answers with 204.
func Empty(w http.ResponseWriter) error {
	httpjson.AllowWrite(w)
	httpjson.Guard(w.Header())
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// A Question is what a client sees of a question.
type Question struct {
	ID       string          `json:"id"`
	Shown    json.RawMessage `json:"shown"`
	Sum      string          `json:"sum"`
	Expires  *time.Time      `json:"expires,omitempty"`
	Answered bool            `json:"answered"`
	By       string          `json:"by,omitempty"` // who has answered
}
