package turnhttp

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// unreadBody returns the error of a body that could not be read, or was refused.
func unreadBody(err error) error {
	_, large := errors.AsType[*http.MaxBytesError](err)
	_, input := errors.AsType[*orchestrator.InputError](err)
	_, refused := errors.AsType[*refusal](err)
	if !large && !errors.Is(err, os.ErrDeadlineExceeded) && (input || refused || foreign.PanicOf(err) != nil) {
		return err
	}
	return httpjson.Unread(err)
}

// ReadJSON reads the body of a request, a JSON object, into the struct that v points to. It is for an Options.Input of
// a program's own, and for routes of its own: [Problem] says what is wrong with the body, and repeats nothing of it. A
// member that the struct does not have is an error. The handler bounds the body. On another route, do so by
// http.MaxBytesReader before.
func ReadJSON(r *http.Request, v any) error { return httpjson.ReadInto(r, v) }

// messageInput is Options.Input, unless a program has its own.
func messageInput(r *http.Request) (in orchestrator.Input, err error) {
	all, err := httpjson.Members(r, "message")
	if err != nil {
		return in, err
	}
	in.Text, err = httpjson.Text(all, "message")
	return in, err
}

var errReservedKey = errBadRequest.Because("A key must not begin with " + approval.Prefix + ".")

// keyOf returns the Idempotency-Key; "" if there is none.
func keyOf(r *http.Request) (string, error) {
	key, err := httpjson.Key(r)
	if strings.HasPrefix(key, approval.Prefix) {
		return "", errReservedKey
	}
	return key, err
}
