package logtext_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

type (
	typedNil     struct{ inner error }
	coded        struct{ code int }
	quiet        struct{} // its Error panics
	selfish      struct{} // its Error panics with itself
	badIs        struct{}
	badAs        struct{}
	badUnwrap    struct{}
	itself       struct{}
	twice        struct{}
	more         int
	uncomparable struct{ any }
	knows        struct{ err error } // by its own Is and As
)

func (e *typedNil) Error() string    { return e.inner.Error() }
func (e *typedNil) Unwrap() error    { return e.inner }
func (c *coded) Error() string       { return fmt.Sprint("code ", c.code) }
func (quiet) Error() string          { panic("secret") }
func (e selfish) Error() string      { panic(e) }
func (badIs) Error() string          { return "is" }
func (badIs) Is(error) bool          { panic("Is") }
func (badAs) Error() string          { return "as" }
func (badAs) As(any) bool            { panic("As") }
func (badUnwrap) Error() string      { return "unwrap" }
func (badUnwrap) Unwrap() error      { panic("Unwrap") }
func (itself) Error() string         { return "itself" }
func (e itself) Unwrap() error       { return e }
func (twice) Error() string          { return "twice" }
func (e twice) Unwrap() []error      { return []error{e, e, nil} }
func (more) Error() string           { return "more" }
func (m more) Unwrap() []error       { return []error{2 * m, 2*m + 1} }
func (uncomparable) Error() string   { return "uncomparable" }
func (knows) Error() string          { return "knows" }
func (k knows) Is(target error) bool { return errors.Is(k.err, target) }
func (k knows) As(target any) bool   { return errors.As(k.err, target) }

var errBoom = errors.New("boom")

// What errors.Is and errors.As find in an error, they find in what stands for it.
func TestSaidFinds(t *testing.T) {
	code := &coded{7}
	for name, err := range map[string]error{
		"bare":         errors.Join(errBoom, code),
		"wrapped":      fmt.Errorf("a: %w, b: %w", errBoom, code),
		"deep":         fmt.Errorf("a: %w", fmt.Errorf("b: %w", errors.Join(io.EOF, errors.Join(errBoom, code)))),
		"by itself":    knows{errors.Join(errBoom, code)},
		"twice":        logtext.Shield(fmt.Errorf("c: %w", logtext.Private(errors.Join(errBoom, code)))),
		"beside":       errors.Join(badIs{}, badAs{}, badUnwrap{}, itself{}, twice{}, quiet{}, (*coded)(nil), errBoom, code),
		"uncomparable": errors.Join(uncomparable{[]int{1}}, errBoom, code),
	} {
		for _, said := range []error{logtext.Private(err), logtext.Shield(err)} {
			if !errors.Is(said, errBoom) || errors.Is(said, context.Canceled) || !errors.Is(said, said) {
				t.Errorf("%s: Is", name)
			}
			found, ok := errors.AsType[*coded](said)
			if !ok || found != code {
				t.Errorf("%s: AsType: %v", name, found)
			}
			var as *coded
			if !errors.As(said, &as) || as != code {
				t.Errorf("%s: As: %v", name, as)
			}
			if _, ok := errors.AsType[*typedNil](said); ok {
				t.Errorf("%s: found what it does not wrap", name)
			}
			if errors.Is(said, uncomparable{[]int{1}}) || errors.Is(said, (*typedNil)(nil)) {
				t.Errorf("%s: is what it does not wrap", name)
			}
		}
	}
}

// No method of an error gets out, and every text names the type.
func TestSaidOfMisbehaviour(t *testing.T) {
	var none *typedNil
	for _, c := range []struct {
		err  error
		text string // of Private, and of the log
		log  string
	}{
		{none, "a nil *logtext_test.typedNil as an error", ""},
		{quiet{}, "a logtext_test.quiet whose method Error panics", ""},
		{selfish{}, "a logtext_test.selfish whose method Error panics", ""},
		{fmt.Errorf("a: %w", badIs{}), "a: is", "logtext_test.badIs"},
		{badAs{}, "as", "logtext_test.badAs"},
		{badUnwrap{}, "unwrap", "logtext_test.badUnwrap"},
		{itself{}, "itself", "logtext_test.itself"},
		{twice{}, "twice", "logtext_test.twice"},
	} {
		log := c.log
		if log == "" {
			log = c.text
		}
		said := logtext.Private(c.err)
		if said.Error() != c.text || logtext.Of(fmt.Errorf("x: %w", said)) != "x: "+log {
			t.Errorf("%T: %q, and the log has %q", c.err, said, logtext.Of(said))
		}
		if got := logtext.Of(logtext.Shield(c.err)); got != c.text {
			t.Errorf("%T: the log has %q of a shield", c.err, got)
		}
		_, _ = errors.Is(said, errBoom), logtext.Type(c.err)
		if _, ok := errors.AsType[*typedNil](said); ok {
			t.Errorf("%T: a nil pointer is found", c.err)
		}
		if c.err == error(none) && !errors.Is(said, none) { //nolint:errorlint // this very error is meant
			t.Error("it is not itself")
		}
	}
	if text := logtext.Text(nil); text != "no error" {
		t.Errorf("the text of nil is %q", text)
	}
	if logtext.Shield(nil) != nil {
		t.Error("nil is an error")
	}
	if errors.Is(logtext.Private(more(1)), errBoom) { // there is an end to it
		t.Error("found what is not there")
	}
	logtext.Walk(nil, func(error) bool { t.Error("it walks"); return true })
}

// A handler that compares gets the very error, unless the error cannot even be printed.
func TestPublicOfMute(t *testing.T) {
	if got := logtext.Public(logtext.Private(quiet{})); got.Error() == "" {
		t.Error("no text")
	}
}

// Private does not change what is private, and a shield of it is one.
func TestPrivateOnce(t *testing.T) {
	private := logtext.Private(errBoom)
	if logtext.Private(private) != private || logtext.Shield(private) != private { //nolint:errorlint // the very one
		t.Error("another one")
	}
	shield := logtext.Shield(errBoom)
	if logtext.Shield(shield) != shield || logtext.Of(shield) != "boom" { //nolint:errorlint // the very one
		t.Error("another shield")
	}
	if got := logtext.Of(logtext.Private(shield)); got != "*errors.errorString" {
		t.Errorf("the log has %q", got)
	}
	// All the parts of an error that is not private are in the log.
	mixed := fmt.Errorf("save: %w", errors.Join(logtext.Shield(errors.New("refused")), private))
	if got := logtext.Of(mixed); !strings.Contains(got, "refused") || strings.Contains(got, "boom") {
		t.Errorf("the log has %q", got)
	}
}

// Walk leaves out what see does not want, and sees what is hidden.
func TestWalk(t *testing.T) {
	err := fmt.Errorf("a: %w", errors.Join(errBoom, hidden{fmt.Errorf("b: %w", io.EOF)}, badUnwrap{}))
	var seen []string
	logtext.Walk(err, func(err error) bool {
		seen = append(seen, strings.TrimPrefix(fmt.Sprintf("%T", err), "*"))
		return true
	})
	want := []string{
		"fmt.wrapError", "errors.joinError", "errors.errorString", "logtext_test.hidden", "fmt.wrapError",
		"errors.errorString", "logtext_test.badUnwrap",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("saw %q", seen)
	}
	n := 0
	logtext.Walk(err, func(err error) bool { n++; return n == 1 })
	if n != 2 {
		t.Errorf("saw %d", n)
	}
}

// There is an end to an error that wraps itself, or new errors for ever.
func TestWalkEnds(t *testing.T) {
	for want, err := range map[int]error{1: itself{}, 2: fmt.Errorf("a: %w", twice{}), 101: chain(1), 50_100: more(1)} {
		n := 0
		logtext.Walk(err, func(error) bool { n++; return true })
		if n > want || n < want*9/10 {
			t.Errorf("%T: %d errors, want %d", err, n, want)
		}
	}
}

type chain int

func (chain) Error() string   { return "chain" }
func (c chain) Unwrap() error { return c + 1 }

// A program that cannot say what its logs show does not end the process that asks.
func TestBy(t *testing.T) {
	err := fmt.Errorf("save: %w", errBoom)
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: level}))
	if got := logtext.By(nil, log)(err); got != "save: boom" {
		t.Errorf("got %q", got)
	}
	if got := logtext.By(error.Error, log)(err); got != "save: boom" {
		t.Errorf("got %q", got)
	}
	of := logtext.By(nil, log)
	private := logtext.Private(err)
	if got := of(private); got != "*errors.errorString" {
		t.Errorf("got %q", got)
	}
	level.Set(slog.LevelDebug) // while the program runs
	if got := of(private); got != "save: boom" {
		t.Errorf("at Debug: %q", got)
	}
	if got := of(nil); got != "" {
		t.Errorf("of no error: %q", got)
	}
	got := logtext.By(func(error) string { panic(quiet{}) }, log)(err)
	if want := "*errors.errorString (LogError has panicked with a logtext_test.quiet)"; got != want {
		t.Errorf("got %q", got)
	}
}

// A text that ends the goroutine ends this one only.
func TestGoexit(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = logtext.Private(ends{})
		t.Error("it went on")
	}()
	<-done
}

type ends struct{}

func (ends) Error() string { runtime.Goexit(); return "" }
