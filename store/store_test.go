package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/store"
)

func TestKeyValidate(t *testing.T) {
	long := strings.Repeat("x", 512)
	for _, c := range []struct {
		key   store.Key
		valid bool
	}{
		{store.Key{Orchestrator: "bot", Session: "s"}, true},
		{store.Key{Orchestrator: long, Session: "%_*é"}, true},
		{store.Key{Orchestrator: "bot"}, false},
		{store.Key{Session: "s"}, false},
		{store.Key{Orchestrator: long + "x", Session: "s"}, false},
		{store.Key{Orchestrator: "bot", Session: "\x00"}, false},
		{store.Key{Orchestrator: "\xff", Session: "s"}, false},
	} {
		err := c.key.Validate()
		if (err == nil) != c.valid || err != nil && !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%.40q: %v", c.key, err)
		}
	}
}

// hiding hides what it wraps from errors.Is.
type hiding struct{ error }

func TestIsVerdict(t *testing.T) {
	own := store.Verdict("contract: no room")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{own, true},
		{fmt.Errorf("claim: %w", own), true},
		{fmt.Errorf("%w: %w", errors.New("cut off"), own), true},
		{store.ErrInvalid, true},
		{store.ErrSchema, true},
		{store.ErrDamaged, true},
		{new(store.DamagedError), true},
		{store.ErrRefused, false},
		{hiding{own}, false},
		{errors.New("contract: no room"), false},
		{&store.AwayError{Err: errors.New("node")}, false},
		{&store.AwayError{Err: store.ErrRefused}, false},
		{context.Canceled, false},
		{nil, false},
	} {
		if got := store.IsVerdict(c.err); got != c.want {
			t.Errorf("%v is a verdict: %t", c.err, got)
		}
	}
	if errors.Is(own, store.Verdict("contract: no room")) || errors.Is(own, store.ErrInvalid) {
		t.Error("two verdicts are one")
	}
}

func TestDamagedError(t *testing.T) {
	key := store.Key{Orchestrator: "bot", Session: "s"}
	why := errors.New("epoch -1")
	for want, d := range map[string]store.DamagedError{
		`damaged: session "s": epoch -1: restore it`:         {Key: key, What: "session", Remedy: "restore it"},
		`damaged: run of session "s": epoch -1: repair it`:   {Key: key, What: "run", Remedy: "repair it"},
		`damaged: effect "e": epoch -1: repair it`:           {What: "effect", ID: "e", Remedy: "repair it"},
		`damaged: stop "r" of session "s": epoch -1: remove`: {Key: key, What: "stop", ID: "r", Remedy: "remove"},
	} {
		for _, err := range []error{
			why, fmt.Errorf("%w: %w", store.ErrInvalid, why), fmt.Errorf("%w: %w", store.ErrDamaged, why),
		} {
			got := d.Because(err)
			if got.Error() != want || !errors.Is(got, store.ErrDamaged) || errors.Is(got, store.ErrInvalid) {
				t.Errorf("because of %v: %v, want %s", err, got, want)
			}
		}
		known := &store.DamagedError{Key: key, Reason: "known"}
		if got := d.Because(fmt.Errorf("read: %w", known)); got != known {
			t.Errorf("what is known to be damaged became %v", got)
		}
	}
}

func TestAwayError(t *testing.T) {
	node := errors.New("node a: no answer")
	key := store.Key{Orchestrator: "bot", Session: "s"}
	for want, err := range map[string]*store.AwayError{
		`session "s" cannot be reached: node a: no answer`:        {Key: key, Err: node},
		`run of session "s" cannot be reached: node a: no answer`: {Key: key, What: "run", Err: node},
	} {
		if err.Error() != want || !errors.Is(err, node) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
