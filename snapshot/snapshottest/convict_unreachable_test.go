package snapshottest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/snapshot/snapshottest"
)

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
