// Package logtext decides what a log line says of an error. The text of an error that a function of the bot has
// returned may repeat what a user said. So a log line has only the types of such an error. The texts of stores and
// drivers are for operators, and are logged as they are.
package logtext

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"
)

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
func Of(err error) string {
	if err == nil {
		return ""
	}
	t := treeOf(err)
	return Line(t.of())
}

// By returns text, the function of a program that says what its logs show of an error. If text panics, the logs show
// the types of the error. If text is nil, By returns a function that returns the whole text while log has the level
// Debug, and otherwise what Of returns.
func By(text func(error) string, log *slog.Logger) func(error) string {
	if text == nil {
		return func(err error) string {
			if err != nil && log.Enabled(context.Background(), slog.LevelDebug) {
				return Line(Text(err))
			}
			return Of(err)
		}
	}
	return func(err error) (shown string) {
		defer func() {
			if v := recover(); v != nil {
				shown = fmt.Sprintf("%s (LogError has panicked with a %T)", Of(Private(err)), v)
			}
		}()
		return text(err)
	}
}

func (t *tree) of() string {
	if s, ok := t.err.(*said); ok && s.private { //nolint:errorlint // this very error is meant
		if s.mute {
			return s.text
		}
		return s.types()
	}
	if !t.isPrivate() {
		return Text(t.err)
	}
	if len(t.inner) == 1 {
		// A wrapper's text ends with the text of the wrapped error. The text before that is the wrapper's own.
		if own, ok := strings.CutSuffix(Text(t.err), Text(t.inner[0].err)); ok {
			return own + t.inner[0].of()
		}
	}
	return t.join((*tree).of)
}

// isPrivate reports whether t has a Private error.
func (t *tree) isPrivate() bool {
	if s, ok := t.err.(*said); ok && s.private { //nolint:errorlint // this very error is meant
		return true
	}
	for i := range t.inner {
		if t.inner[i].isPrivate() {
			return true
		}
	}
	return false
}

// types names the types of an error and of the errors that it wraps. If errors always have the same text, types names
// them by the text.
func (t *tree) types() string {
	if fixed := fixedText(t.err); fixed != "" {
		return fixed
	}
	name := fmt.Sprintf("%T", t.err)
	switch {
	case len(t.inner) == 0:
		return name
	case plain(name):
		return t.join((*tree).types)
	}
	return name + ": " + t.join((*tree).types)
}

// Type names the type of err. If err only wraps other errors, Type names the type of the first of these.
func Type(err error) string {
	t := treeOf(err)
	name := fmt.Sprintf("%T", t.err)
	for at := &t; plain(name) && len(at.inner) > 0; {
		at = &at.inner[0]
		name = fmt.Sprintf("%T", at.err)
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
		"*retry.after", "*agent.statusError", "orchestrator.outsideError":
		return true
	}
	return false
}

func (t *tree) join(text func(*tree) string) string {
	all := make([]string, 0, len(t.inner))
	for i := range t.inner {
		all = append(all, text(&t.inner[i]))
	}
	return strings.Join(all, ": ")
}
