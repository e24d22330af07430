package snapshottest_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

// goesOn is a store whose list goes on after its error.
type goesOn struct{ snapshot.Store }

func (g goesOn) Runs(ctx context.Context, q snapshot.Query) iter.Seq2[snapshot.Run, error] {
	return func(yield func(snapshot.Run, error) bool) {
		for range 2 {
			for r, err := range g.Store.Runs(ctx, q) {
				if !yield(r, err) {
					return
				}
			}
		}
	}
}

func TestSuiteConvictsGoingOn(t *testing.T) {
	away := func(context.Context, faulttest.Call, func(context.Context) error) error { return snapshot.ErrRefused }
	s := goesOn{faulttest.Snapshots(new(snapshot.Memory), away)}
	if snapshottest.UnreachableViolation(t.Context(), s) == nil {
		t.Error("acquitted")
	}
}

// A store that says of one method only that its server is away leaves a caller in doubt.
func TestSuiteConvictsUnreachable(t *testing.T) {
	for _, vague := range []string{"", "Begin", "Adopt", "Save", "Delete", "Runs"} {
		away := func(_ context.Context, c faulttest.Call, _ func(context.Context) error) error {
			if c.Method == vague {
				return errors.New("connection refused")
			}
			return snapshot.ErrRefused
		}
		s := faulttest.Snapshots(new(snapshot.Memory), away)
		if err := snapshottest.UnreachableViolation(t.Context(), s); (err == nil) != (vague == "") {
			t.Errorf("%s is vague: %v", vague, err)
		}
	}
}
