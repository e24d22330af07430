package orchestrator_test

import (
	"errors"
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// An error says on one line what a person on call has to know.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"stored by another version": &orchestrator.DriftError{Saved: "same", Current: "same"},
		"stored by another version, of definition 0123456789ab, and this is short": &orchestrator.DriftError{
			Saved: "0123456789abcdef", Current: "short",
		},
		`stored by another version: the state has no place for ["a" "b"]: no intents ["c"]: EOF`: &orchestrator.DriftError{
			Members: []string{"a", "b"}, Intents: []string{"c"}, Current: "known", Err: io.EOF,
		},
		`stored by another version: no intents ["pay"]`: &orchestrator.DriftError{
			Saved: "known", Intents: []string{"pay"},
		},
		"text: it is empty": &orchestrator.InputError{Field: "text", Reason: "it is empty"},
		"state of 9 bytes, and Limits.State is 8: EOF: keep less in the state, or raise the limit": &orchestrator.StateError{
			Of: "state", Size: 9, Limit: 8, Err: io.EOF,
		},
		"panic: EOF":                     &orchestrator.PanicError{Value: io.EOF},
		"effect in doubt: a":             &orchestrator.InDoubtError{Effects: []string{"a"}},
		"effects in doubt: a, b, c: EOF": &orchestrator.InDoubtError{Effects: []string{"a", "b", "c"}, Err: io.EOF},
		"orchestrator: sweep: EOF":       &orchestrator.Error{Op: "sweep", Err: io.EOF},
		`orchestrator: fork: session "s": EOF`: &orchestrator.Error{
			Op: "fork", Session: "s", Turn: 3, Err: io.EOF,
		},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// An error wraps why.
func TestErrorCauses(t *testing.T) {
	for _, err := range []error{
		&orchestrator.DriftError{Err: io.EOF}, &orchestrator.StateError{Err: io.EOF},
		&orchestrator.PanicError{Value: io.EOF}, &orchestrator.InDoubtError{Err: io.EOF},
		&orchestrator.Error{Err: io.EOF},
	} {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%T hides its cause", err)
		}
	}
	for _, err := range []error{
		&orchestrator.DriftError{}, &orchestrator.PanicError{Value: "EOF"}, &orchestrator.InDoubtError{},
	} {
		if errors.Is(err, io.EOF) {
			t.Errorf("%T has no cause", err)
		}
	}
	for _, err := range []error{&orchestrator.InDoubtError{}, &orchestrator.InDoubtError{Err: io.EOF}} {
		if !errors.Is(err, ledger.ErrInDoubt) {
			t.Error("doubt is not ledger.ErrInDoubt")
		}
	}
}
