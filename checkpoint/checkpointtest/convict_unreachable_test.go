package checkpointtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/checkpoint/checkpointtest"
	"github.com/holdfast-go/holdfast/internal/test/faulttest"
)

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
