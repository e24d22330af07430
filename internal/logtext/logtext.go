// Package logtext decides what a log record says of an error. The text of an error that a function of the bot has
// returned may repeat what a user said, so a record has its types only. What stores and drivers say is for operators,
// and is logged as it is.
package logtext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
)

// A said is an error whose text is not for logs. It reads like the error that it wraps.
type said struct{ err error }

// Private marks what a function of the bot has returned, and what tells of its state. Private(nil) is nil.
func Private(err error) error {
	if err == nil {
		return nil
	}
	return &said{err}
}

func (s *said) Error() string { return s.err.Error() }
func (s *said) Unwrap() error { return s.err }

// Public undoes Private for those who are to have the very error.
func Public(err error) error {
	if s, ok := err.(*said); ok { //nolint:errorlint // this very error is meant
		return s.err
	}
	return err
}

// A hider is an error that hides from errors.Is and errors.As what it wraps.
type hider interface{ Hidden() error }

// Of returns what a record says of err: its text, in which the types of what is Private stand for the text of that.
func Of(err error) string {
	if err == nil {
		return ""
	}
	if s, ok := err.(*said); ok { //nolint:errorlint // this very error is meant
		return types(s.err)
	}
	if _, private := errors.AsType[*said](err); !private {
		return err.Error()
	}
	inner := wrapped(err)
	if len(inner) == 1 {
		// Wrappers end with the text of what they wrap. What one says before it is its own.
		if own, ok := strings.CutSuffix(err.Error(), inner[0].Error()); ok {
			return own + Of(inner[0])
		}
	}
	return join(inner, Of)
}

// types names the types of err and of what it wraps. Errors that always have the same text are named by it.
func types(err error) string {
	if fixed := fixedText(err); fixed != "" {
		return fixed
	}
	name := fmt.Sprintf("%T", err)
	inner := wrapped(err)
	switch {
	case len(inner) == 0:
		return name
	case plain(name):
		return join(inner, types)
	}
	return name + ": " + join(inner, types)
}

func fixedText(err error) string {
	switch err { //nolint:errorlint // this very error is meant
	case context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF:
		return err.Error()
	}
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // this very error is meant
		return errno.Error()
	}
	return ""
}

// plain reports whether a type of errors says nothing of what it wraps.
func plain(name string) bool {
	switch name {
	case "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError", "*logtext.said", "*retry.permanent",
		"orchestrator.outsideError":
		return true
	}
	return false
}

func wrapped(err error) []error {
	var all []error
	switch e := err.(type) { //nolint:errorlint // this very error is meant
	case interface{ Unwrap() []error }:
		all = e.Unwrap()
	case interface{ Unwrap() error }:
		all = []error{e.Unwrap()}
	case hider:
		all = []error{e.Hidden()}
	}
	if len(all) == 1 && all[0] == nil {
		return nil
	}
	return all
}

func join(errs []error, text func(error) string) string {
	all := make([]string, 0, len(errs))
	for _, err := range errs {
		if err != nil {
			all = append(all, text(err))
		}
	}
	return strings.Join(all, ": ")
}
