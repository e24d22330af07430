package faulttest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

func TestMemoryWorkflow(t *testing.T) {
	WorkflowHistories(t, func(*testing.T) workflow.Store { return new(workflow.Memory) }, 30*Histories())
}

// Histories of a run convict a store that breaks its promises at once, or only if two calls meet.
func TestWorkflowHistoriesConvict(t *testing.T) {
	record := func(ctx context.Context, s workflow.Store, seed uint64) []porcupine.Operation {
		ops, err := recordRun(ctx, s, seed)
		if err != nil {
			t.Error(err)
		}
		return ops
	}
	convictHistories(t, runSpec, record, map[string]func() workflow.Store{
		"mail is not compared":        func() workflow.Store { return careless{new(workflow.Memory)} },
		"no fence":                    func() workflow.Store { return fenceless{new(workflow.Memory)} },
		"a late row counts":           func() workflow.Store { return recording{new(workflow.Memory)} },
		"a signal to an end is kept":  func() workflow.Store { return looksAtEnd{new(workflow.Memory)} },
		"a pause leaves the owner be": func() workflow.Store { return noPause{new(workflow.Memory)} },
	})
}

type (
	careless   struct{ *workflow.Memory }
	fenceless  struct{ *workflow.Memory }
	recording  struct{ *workflow.Memory }
	looksAtEnd struct{ *workflow.Memory }
	noPause    struct{ *workflow.Memory }
)

func (s careless) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	entries[0].Mail = -1
	return s.Memory.Write(ctx, entries)
}

// fenceless takes an entry of whoever owned the run before.
func (s fenceless) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	verdicts, err := s.Memory.Write(ctx, entries)
	if err == nil && errors.Is(verdicts[0], lock.ErrFenced) {
		verdicts[0] = nil
	}
	return verdicts, err
}

// recording adds the row of a former owner to the journal.
func (s recording) Write(ctx context.Context, entries []workflow.Entry) ([]error, error) {
	verdicts, err := s.Memory.Write(ctx, entries)
	if err == nil && errors.Is(verdicts[0], lock.ErrFenced) {
		entries[0].Next = workflow.Record
		_, err = s.Memory.Write(ctx, entries)
	}
	return verdicts, err
}

// looksAtEnd tells what it saw before it wrote.
func (s looksAtEnd) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	r, err := workflow.NewClient(s.Memory).Get(ctx, messages[0].Run)
	if err != nil {
		return nil, err
	}
	runtime.Gosched()
	receipts, err := s.Memory.Send(ctx, messages)
	if err == nil && receipts[0] == workflow.Over && r.Status == workflow.Running {
		receipts[0] = workflow.Kept
	}
	return receipts, err
}

func (s noPause) Send(ctx context.Context, messages []workflow.Message) ([]workflow.Receipt, error) {
	if messages[0].Action == workflow.Pause {
		return []workflow.Receipt{workflow.Applied}, nil
	}
	return s.Memory.Send(ctx, messages)
}
