package workflowhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/workflow"
)

type refusal = httpjson.Refusal

// What this package refuses by itself. The package comment lists them, and those of package httpjson.
var (
	errKeyReused = httpjson.Refuse(http.StatusConflict, "key-reused", "The key was used for something else.")
	errOver      = httpjson.Refuse(http.StatusConflict, "over", "The run is over.")
	errInvalid   = httpjson.Refuse(http.StatusUnprocessableEntity, "invalid", "A value of the request is not taken.")
	errInternal  = httpjson.Refuse(http.StatusInternalServerError, "internal", "Something went wrong.")
	errCancelled = &refusal{
		Type: "cancelled", Status: statusClientGone, Retryable: true, Text: "The request was cancelled.",
	}
	errUnavailable = &refusal{
		Type: "unavailable", Status: http.StatusServiceUnavailable, Retryable: true, RetryAfter: 5 * time.Second,
		Text: "The service is not available now.",
	}
	errTimeout = &refusal{
		Type: "timeout", Status: http.StatusGatewayTimeout, Retryable: true, RetryAfter: time.Second,
		Text: "It took too long.",
	}
)

// statusClientGone is what servers log for a client that did not wait.
const statusClientGone = 499

// told are tried in order: the first error that fits says what a client is told.
var told = []struct {
	err     error
	refusal *refusal
}{
	{workflow.ErrNotFound, httpjson.ErrNotFound},
	{workflow.ErrKeyReused, errKeyReused},
	{workflow.ErrOver, errOver},
	{workflow.ErrInvalid, errInvalid},
	{workflow.ErrRefused, errUnavailable},
	{context.DeadlineExceeded, errTimeout},
	{context.Canceled, errCancelled},
}

// refusalOf returns what a client is told of an error. A failure of a store is one that may pass.
func refusalOf(err error) *refusal {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r
	}
	for _, each := range told {
		if errors.Is(err, each.err) {
			return each.refusal
		}
	}
	if store.IsVerdict(err) {
		return errInternal
	}
	return errUnavailable
}

// invalid returns the refusal of a value that a Validate of package workflow has refused, with the reason.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return errInvalid.Because(strings.TrimPrefix(logtext.Line(err.Error()), workflow.ErrInvalid.Error()+": "))
}

// A panicked says that a function of the program or of a store has panicked. Its text does not repeat the value, which
// may repeat what a user said.
type panicked struct {
	value any
	stack []byte
}

func (e *panicked) Error() string { return fmt.Sprintf("panic with a %T", e.value) }

func (e *panicked) Unwrap() error { return errInternal }

// fail answers with a problem. If the answer has begun, fail cuts the connection, so that no client takes the answer
// for whole.
func (s *server) fail(w *answer, r *http.Request, to Target, err error) {
	said := refusalOf(err)
	if said.Status >= http.StatusInternalServerError {
		s.log(r, to, said, err)
	}
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	httpjson.HurryBody(w, r)
	httpjson.AllowWrite(w)
	httpjson.WriteProblem(w, said.Status, said.RetryAfter, httpjson.Problem{
		Type: s.site.ProblemBase + said.Type, Title: said.Text, Status: said.Status, Detail: said.Detail,
		Retryable: said.Retryable,
	})
}

func (s *server) log(r *http.Request, to Target, said *refusal, err error) {
	args := []any{"method", r.Method, "status", said.Status, "err", logtext.Of(err)}
	for _, each := range [][2]string{{"workflow", to.Workflow}, {"run", to.Run}, {"topic", to.Topic}} {
		if each[1] != "" {
			args = append(args, each[0], each[1])
		}
	}
	if p, ok := errors.AsType[*panicked](err); ok {
		s.Logger.ErrorContext(r.Context(), "handler panicked", append(args, "stack", string(p.stack))...)
		return
	}
	s.Logger.WarnContext(r.Context(), "request failed", args...)
}

// serveSafely makes an error of a panic of at.
func serveSafely(at serving, w *answer, r *http.Request, to Target) (err error) {
	defer func() {
		if v := recover(); v == http.ErrAbortHandler { //nolint:errorlint // net/http compares
			panic(v)
		} else if v != nil {
			err = &panicked{v, debug.Stack()}
		}
	}()
	return at(w, r, to)
}

// An answer knows whether it has begun.
type answer struct {
	http.ResponseWriter

	begun bool
}

func (w *answer) WriteHeader(status int) {
	w.begun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *answer) Write(b []byte) (int, error) {
	w.begun = true
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
