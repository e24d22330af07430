package logtext_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// A hidden error shows only the text of the errors it wraps.
type hidden struct{ err error }

func (h hidden) Error() string          { return h.err.Error() }
func (h hidden) Hidden() error          { return h.err }
func (h hidden) As(target any) bool     { return errors.As(h.err, target) }
func (h hidden) Is(error) bool          { return false }
func private(text string) error         { return logtext.Private(errors.New(text)) }
func wrap(text string, err error) error { return fmt.Errorf("%s: %w", text, err) }

func TestOf(t *testing.T) {
	store := errors.New("connection refused")
	down := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{wrap("save", store), "save: connection refused"},
		{private("secret"), "*errors.errorString"},
		{wrap("deliver", private("secret")), "deliver: *errors.errorString"},
		{wrap("deliver", logtext.Private(wrap("secret", down))), "deliver: *net.OpError: connection refused"},
		{logtext.Private(wrap("secret", context.DeadlineExceeded)), "context deadline exceeded"},
		{fmt.Errorf("%w: %w", store, private("secret")), "connection refused: *errors.errorString"},
		{fmt.Errorf("%w, after: %w", store, private("secret")), "connection refused: *errors.errorString"},
		{errors.Join(private("secret"), store), "*errors.errorString: connection refused"},
		{wrap("adopt", hidden{wrap("found", private("secret"))}), "adopt: found: *errors.errorString"},
		{logtext.Private(errors.Join(errors.New("secret"), io.EOF)), "*errors.errorString: EOF"},
		{fmt.Errorf("%w (no suffix)", private("secret")), "*errors.errorString"},
		{wrap("empty", private("")), "empty: *errors.errorString"},
	} {
		got := logtext.Of(c.err)
		if got != c.want || strings.Contains(got, "secret") {
			t.Errorf("of %v: %q, want %q", c.err, got, c.want)
		}
	}
}

// To its caller, a private error is the same error.
func TestPrivate(t *testing.T) {
	boom := errors.New("boom")
	err := logtext.Private(boom)
	if !errors.Is(err, boom) || err.Error() != "boom" {
		t.Errorf("%v is not %v", err, boom)
	}
	for _, e := range []error{err, boom} {
		if got := logtext.Public(e); got != boom { //nolint:errorlint // the very error, for callers who compare
			t.Errorf("%#v is made public as %#v", e, got)
		}
	}
	if logtext.Private(nil) != nil || logtext.Public(nil) != nil {
		t.Error("nil is an error")
	}
}

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"one":                                 "one",
		"one\ntwo":                            "one; two",
		"failed:\n\tdial a\n\tdial b":         "failed: dial a; dial b",
		"refused\nrefused\nclosed":            "refused; closed",
		"dial: refused\nrefused":              "dial: refused",
		"model: timeout: model: timeout":      "model: timeout",
		"a: b: a":                             "a: b: a", // too short to be a cause
		`bad {"key": {"key": {"key": 1}}}`:    `bad {"key": {"key": {"key": 1}}}`,
		"\n\n":                                "",
		"line feed\r\n":                       "line feed",
		"refused by peer\nrefused":            "refused by peer; refused",
		"dial tcp: refused; closed\nrefused":  "dial tcp: refused; closed",
		"read: connection lost\nwrite failed": "read: connection lost; write failed",
	} {
		if got := logtext.Line(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
