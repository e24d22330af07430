package ledger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
)

// NotDone marks an error, and does not hide it.
func TestNotDone(t *testing.T) {
	declined := errors.New("declined")
	err := fmt.Errorf("refund: %w", ledger.NotDone(declined))
	if !ledger.IsNotDone(err) || !errors.Is(err, declined) || err.Error() != "refund: declined" {
		t.Error(err)
	}
	if ledger.NotDone(nil) != nil || ledger.IsNotDone(declined) || ledger.IsNotDone(nil) {
		t.Error("an error is marked that NotDone has not marked")
	}
}

// A list that a person reads names classes.
func TestClassNames(t *testing.T) {
	classes := []ledger.Class{ledger.Ask, ledger.Pure, ledger.Idempotent, ledger.Verifiable, 7}
	if got, want := fmt.Sprint(classes), "[ask pure idempotent verifiable class 7]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
