package turnhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// errEnded says that a function of the program has ended its goroutine, as the FailNow of a test does.
var errEnded = errors.New("turnhttp: a function of the program has ended its goroutine")

// A panicError says that a function of the program has panicked. It is an orchestrator.PanicError and nothing else: the
// value of the panic says nothing of the request. Its text does not repeat the value, which may repeat what a user
// said.
type panicError struct {
	what string
	err  *orchestrator.PanicError
}

func (e *panicError) Error() string {
	return fmt.Sprintf("turnhttp: %s panicked with a %T", e.what, e.err.Value)
}

// As gives the value and the stack to programs that ask for them.
func (e *panicError) As(target any) bool {
	p, ok := target.(**orchestrator.PanicError)
	if ok {
		*p = e.err
	}
	return ok
}

// ask calls a function of the program. A panic becomes an error, so that the client gets an answer. No method of the
// error that ask returns can panic.
func ask[T any](what string, f func() (T, error)) (T, error) {
	v, err := caught(what, f)
	return v, logtext.Private(err)
}

// caught calls f. A panic becomes a *panicError.
func caught[T any](what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{what, &orchestrator.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	return f()
}

// panicOf returns the *panicError that err tells of; nil if there is none.
func panicOf(err error) *panicError {
	e, _ := errors.AsType[*panicError](logtext.Shield(err))
	return e
}

// abort panics with http.ErrAbortHandler if a function of the program has done so: the program wants the connection
// cut. It is for the goroutine of a handler.
func abort(err error) {
	if e := panicOf(err); e != nil && e.err.Value == http.ErrAbortHandler { //nolint:errorlint // net/http compares
		panic(http.ErrAbortHandler)
	}
}

// report tells the program of an error that a client saw as a status of 500 or more, or that no client saw. r is nil if
// no request has met it.
func (s *server[S]) report(ctx context.Context, r *http.Request, err error) {
	logPanic(ctx, err)
	_, failed := caught("Options.OnError", func() (struct{}, error) {
		s.OnError(r, err)
		return struct{}{}, nil
	})
	logPanic(ctx, failed)
}

// logPanic logs a panic of a function of the program, without its value.
func logPanic(ctx context.Context, err error) {
	if e := panicOf(err); e != nil {
		logIn(ctx).ErrorContext(ctx, "handler panicked", "function", e.what, "type", fmt.Sprintf("%T", e.err.Value),
			"stack", string(e.err.Stack))
	}
}

type logKey struct{}

// withLog makes log the Logger of what happens under the context.
func withLog(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// logIn returns the Logger of the Service that ctx belongs to, or slog.Default().
func logIn(ctx context.Context) *slog.Logger {
	log, _ := ctx.Value(logKey{}).(*slog.Logger)
	return cmp.Or(log, slog.Default())
}
