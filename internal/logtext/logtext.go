// Package logtext decides what a log line says of an error. The text of an error that a function of the bot has
// returned may repeat what a user said. So a log line has only the types of such an error. The texts of stores and
// drivers are for operators, and are logged as they are.
package logtext

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
)

// A said is an error whose text is not for logs. It reads like the error that it wraps.
type said struct{ err error }

// Private marks an error that a function of the bot has returned, or that tells of the bot's state. Private(nil) is
// nil.
func Private(err error) error {
	if err == nil {
		return nil
	}
	return &said{err}
}

// Error returns the text of the wrapped error.
func (s *said) Error() string { return s.err.Error() }

// Unwrap returns the wrapped error.
func (s *said) Unwrap() error { return s.err }

// Public undoes Private for callers that are to have exactly the bot's error.
func Public(err error) error {
	if s, ok := err.(*said); ok { //nolint:errorlint // this very error is meant
		return s.err
	}
	return err
}

// A hider is an error that hides the errors it wraps from errors.Is and errors.As.
type hider interface{ Hidden() error }

// Line makes one line of a text of several lines, as errors.Join and some drivers write it. What the text says twice
// because an error was wrapped twice, the line says once.
func Line(text string) string {
	var b strings.Builder
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		line = once(strings.TrimSpace(line))
		switch {
		case line == "" || hasPart(b.String(), line):
			continue
		case strings.HasSuffix(b.String(), ":"):
			b.WriteString(" ")
		case b.Len() > 0:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// once drops the parts of a chain of errors that stand before them already. Parts that are short or quoted stay: they
// may be values.
func once(line string) string {
	parts := strings.Split(line, ": ")
	kept := parts[:0]
	for _, part := range parts {
		if len(part) < 5 || strings.ContainsAny(part, "\"'`{[") || !slices.Contains(kept, part) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, ": ")
}

// hasPart reports whether part ends a chain in line.
func hasPart(line, part string) bool {
	return line == part || strings.HasSuffix(line, " "+part) || strings.Contains(line, " "+part+";") ||
		strings.HasPrefix(line, part+";")
}

// Of returns what a log line says of err: its text, in which the types of a Private error stand for the error's text.
func Of(err error) string { return Line(of(err)) }

func of(err error) string {
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
		// A wrapper's text ends with the text of the wrapped error. The text before that is the wrapper's own.
		if own, ok := strings.CutSuffix(err.Error(), inner[0].Error()); ok {
			return own + of(inner[0])
		}
	}
	return join(inner, of)
}

// types names the types of err and of the errors that it wraps. If errors always have the same text, types names them
// by the text.
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

// Type names the type of err. If err only wraps other errors, Type names the type of the first of these.
func Type(err error) string {
	name := fmt.Sprintf("%T", err)
	if inner := wrapped(err); plain(name) && len(inner) > 0 {
		return Type(inner[0])
	}
	return name
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

// plain reports whether a type of errors says nothing of the errors that it wraps.
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
