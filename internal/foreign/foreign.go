// Package foreign calls the functions of a program, which may panic, and stores, whose errors may be any.
package foreign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// ErrEnded says that a function of the program has ended its goroutine, as the FailNow of a test does.
var ErrEnded = errors.New("a function of the program has ended its goroutine")

// A Panic says that a function of the program has panicked. It is an orchestrator.PanicError and nothing else: the
// value of the panic says nothing of the request. Its text does not repeat the value, which may repeat what a user
// said.
type Panic struct {
	what string
	err  *orchestrator.PanicError
}

// Error names the function.
func (e *Panic) Error() string {
	return fmt.Sprintf("%s panicked with a %T", e.what, e.err.Value)
}

// As gives the value and the stack to programs that ask for them.
func (e *Panic) As(target any) bool {
	p, ok := target.(**orchestrator.PanicError)
	if ok {
		*p = e.err
	}
	return ok
}

// Ask calls a function of the program. A panic becomes an error, so that the client gets an answer. No method of the
// error that Ask returns can panic.
func Ask[T any](what string, f func() (T, error)) (T, error) {
	v, err := Caught(what, f)
	return v, logtext.Private(err)
}

// Caught calls f. A panic becomes a *Panic.
func Caught[T any](what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Panic{what, &orchestrator.PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	return f()
}

// Told tells the function that is called what, which is one of the program, of an error, and logs panics.
func Told(ctx context.Context, what string, err error, tell func(error)) {
	Log(ctx, err)
	_, failed := Caught(what, func() (struct{}, error) {
		tell(err)
		return struct{}{}, nil
	})
	Log(ctx, failed)
}

// PanicOf returns the *Panic that err tells of; nil if there is none.
func PanicOf(err error) *Panic {
	e, _ := errors.AsType[*Panic](logtext.Shield(err))
	return e
}

// Abort panics with http.ErrAbortHandler if a function of the program has done so: the program wants the connection
// cut. It is for the goroutine of a handler.
func Abort(err error) {
	if e := PanicOf(err); e != nil && e.err.Value == http.ErrAbortHandler { //nolint:errorlint // net/http compares
		panic(http.ErrAbortHandler)
	}
}

// Log logs a panic of a function of the program, without its value.
func Log(ctx context.Context, err error) {
	if e := PanicOf(err); e != nil {
		logtext.Logger(ctx).ErrorContext(ctx, "handler panicked", "function", e.what,
			"type", fmt.Sprintf("%T", e.err.Value), "stack", string(e.err.Stack))
	}
}

// A StoreError is an error of an inbox or a ledger. If orchestrator.Public does not know the error, the StoreError is
// an orchestrator.ErrUnavailable.
type StoreError struct{ Err error }

// Error returns the text of the store.
func (e *StoreError) Error() string { return logtext.Text(e.Err) }

// Unwrap returns the error of the store.
func (e *StoreError) Unwrap() error { return e.Err }

// Is makes the store's error one that orchestrator.Public knows, for a program that is told of it by OnError.
func (e *StoreError) Is(target error) bool {
	return target == orchestrator.ErrUnavailable && orchestrator.Public(e.Err).Status == http.StatusInternalServerError
}

// OneTurn returns the error of a turn that cannot be used, after which Turns of an Orchestrator goes on.
func OneTurn(err error) (*orchestrator.Error, bool) {
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		return nil, false
	}
	if _, ok := errors.AsType[*orchestrator.DriftError](err); ok {
		return e, true
	}
	_, ok = errors.AsType[*checkpoint.DamagedError](err)
	return e, ok
}
