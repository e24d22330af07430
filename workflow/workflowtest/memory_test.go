package workflowtest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestMemory(t *testing.T) {
	workflowtest.Run(t, func(*testing.T) workflow.Store { return new(workflow.Memory) })
}
