package owner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/owner"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/turnlog"
)

// Each sentinel says by itself whether it is a verdict. What all contracts share is one value.
func TestAnswered(t *testing.T) {
	for want, all := range map[bool][]error{
		true: {
			lock.ErrFenced, lock.ErrHeld, checkpoint.ErrConflict, checkpoint.ErrNotFound, snapshot.ErrNotFound,
			snapshot.ErrParked, ledger.ErrChanged, ledger.ErrAnswered, ledger.ErrNotFound, turnlog.ErrPhase,
			turnlog.ErrState, turnlog.ErrChanged, stream.ErrGone, store.ErrInvalid, store.ErrSchema, store.ErrDamaged,
			&checkpoint.HeldError{Owner: "a"},
		},
		false: {
			lock.ErrLost, lock.ErrExpired, lock.ErrHandoff, ledger.ErrInDoubt, ledger.ErrRepeated, ledger.ErrSkipped,
			ledger.ErrRedacted, turnlog.ErrAdapter, store.ErrRefused, context.DeadlineExceeded,
			errors.New("cut off"), nil,
		},
	} {
		for _, err := range all {
			if owner.Answered(err) != want || owner.Definite(err) != (want || errors.Is(err, store.ErrRefused)) {
				t.Errorf("%v: answered %t, definite %t", err, owner.Answered(err), owner.Definite(err))
			}
		}
	}
	for word, all := range map[error][]error{
		store.ErrInvalid: {
			checkpoint.ErrInvalid, snapshot.ErrInvalid, ledger.ErrInvalid, turnlog.ErrInvalid, stream.ErrInvalid,
			inbox.ErrInvalid,
		},
		store.ErrSchema: {
			checkpoint.ErrSchema, snapshot.ErrSchema, ledger.ErrSchema, turnlog.ErrSchema, stream.ErrSchema,
			inbox.ErrSchema,
		},
		store.ErrDamaged: {
			checkpoint.ErrDamaged, snapshot.ErrDamaged, ledger.ErrDamaged, turnlog.ErrDamaged, stream.ErrDamaged,
			inbox.ErrDamaged,
		},
		store.ErrRefused: {
			checkpoint.ErrRefused, snapshot.ErrRefused, ledger.ErrRefused, turnlog.ErrRefused, stream.ErrRefused,
			inbox.ErrRefused,
		},
	} {
		for _, err := range all {
			if err != word { //nolint:errorlint // this very value is meant
				t.Errorf("%v is another value", err)
			}
		}
	}
}

// A contract that this package has never heard of makes its own verdicts. Its calls are repeated after a failure and
// after a refusal, and not after a verdict.
func TestPersistNewContract(t *testing.T) {
	var (
		errFull = store.Verdict("shelf: full")
		errCut  = errors.New("connection reset")
		refused = fmt.Errorf("shelf: put: %w: disk full", store.ErrRefused)
	)
	for _, c := range []struct {
		answers []error
		calls   int
		doubt   bool
		want    error
	}{
		{[]error{nil}, 1, false, nil},
		{[]error{fmt.Errorf("shelf: put: %w", errFull), nil}, 1, false, errFull},
		{[]error{&store.DamagedError{What: "shelf"}, nil}, 1, false, store.ErrDamaged},
		{[]error{refused, nil}, 2, false, nil},
		{[]error{refused, errFull}, 2, false, errFull},
		{[]error{errCut, refused, errFull}, 3, true, errFull},
		{[]error{errCut, nil}, 2, true, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := owner.New(owner.Options{SettleTimeout: time.Minute})
			calls := 0
			doubt, err := p.Persist(t.Context(), func(context.Context) error {
				calls++
				return c.answers[calls-1]
			})
			if calls != c.calls || doubt != c.doubt || !errors.Is(err, c.want) {
				t.Errorf("%v: %d calls, doubt %t, %v", c.answers, calls, doubt, err)
			}
		})
	}
}
