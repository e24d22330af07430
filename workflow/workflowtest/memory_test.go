package workflowtest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestMemory(t *testing.T) {
	workflowtest.Run(t, func(*testing.T) workflow.Store { return new(workflow.Memory) })
}

// A sleeping Memory is in a bubble, where time passes as the test sleeps.
type sleeping struct{ *workflow.Memory }

func (sleeping) Age(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}

func TestMemoryAging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func() workflowtest.AgingStore { return sleeping{new(workflow.Memory)} }
		for name, err := range workflowtest.AgingViolations(t.Context(), open) {
			t.Errorf("%s: %v", name, err)
		}
	})
}
