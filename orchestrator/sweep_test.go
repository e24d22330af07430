package orchestrator_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/orchestrator"
)

// Sweep calls Expire of the definition with its limit, and says what has failed in it.
func TestSweepExpires(t *testing.T) {
	failed := errors.New("one of them has failed")
	def := echo()
	def.Expire = func(_ context.Context, limit int) (int, error) { return limit - 1, failed }
	n, err := newWorld().Start(t, def, Options{}).Sweep(t.Context(), 8)
	if e := new(orchestrator.Error); n != 7 || !errors.Is(err, failed) || !errors.As(err, &e) || e.Op != "sweep" {
		t.Errorf("%d, %v", n, err)
	}
}
