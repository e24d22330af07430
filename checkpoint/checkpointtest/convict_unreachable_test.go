package checkpointtest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
)

// goesOn is a store of which one list goes on after its error.
type goesOn struct {
	checkpoint.Store
	list string
}

func (g goesOn) Turns(
	ctx context.Context, k checkpoint.Key, before int,
) iter.Seq2[checkpoint.Checkpoint, error] {
	if g.list == "Turns" {
		return again(g.Store.Turns(ctx, k, before))
	}
	return g.Store.Turns(ctx, k, before)
}

func (g goesOn) Sessions(ctx context.Context, q checkpoint.SessionQuery) iter.Seq2[string, error] {
	if g.list == "Sessions" {
		return again(g.Store.Sessions(ctx, q))
	}
	return g.Store.Sessions(ctx, q)
}

func again[T any](list iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for range 2 {
			for v, err := range list {
				if !yield(v, err) {
					return
				}
			}
		}
	}
}

func TestSuiteConvictsGoingOn(t *testing.T) {
	away := func(context.Context, faulttest.Call, func(context.Context) error) error { return checkpoint.ErrRefused }
	for _, list := range []string{"Turns", "Sessions"} {
		s := goesOn{faulttest.Checkpoints(new(checkpoint.Memory), away), list}
		if checkpointtest.UnreachableViolation(t.Context(), s) == nil {
			t.Errorf("%s is acquitted", list)
		}
	}
}

// A store that says nothing of one method hides that its server is away.
func TestSuiteConvictsSilence(t *testing.T) {
	for _, silent := range []string{"Claim", "Append", "Renew", "Held", "Mark", "Remove", "Turns", "Sessions"} {
		away := func(_ context.Context, c faulttest.Call, _ func(context.Context) error) error {
			if c.Method == silent {
				return nil
			}
			return checkpoint.ErrRefused
		}
		s := faulttest.Checkpoints(new(checkpoint.Memory), away)
		if checkpointtest.UnreachableViolation(t.Context(), s) == nil {
			t.Errorf("%s is acquitted", silent)
		}
	}
}

// A store that says of one method only that its server is away leaves a caller in doubt.
func TestSuiteConvictsUnreachable(t *testing.T) {
	for _, vague := range []string{"", "Claim", "Append", "Mark", "Remove", "Turns", "Sessions"} {
		away := func(_ context.Context, c faulttest.Call, _ func(context.Context) error) error {
			if c.Method == vague {
				return errors.New("connection refused")
			}
			return checkpoint.ErrRefused
		}
		s := faulttest.Checkpoints(new(checkpoint.Memory), away)
		if err := checkpointtest.UnreachableViolation(t.Context(), s); (err == nil) != (vague == "") {
			t.Errorf("%s is vague: %v", vague, err)
		}
	}
}
