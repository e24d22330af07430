package workflow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// With FailUnknown a run that no process has known for a day fails, and says why.
func TestFailUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &workflow.Memory{FailUnknown: true}
		c := workflow.NewClient(m)
		run := workflow.NewRun{ID: "r", Workflow: "w", Version: 1, Owner: "p", Fence: lock.Fence{Epoch: 1, Nonce: "n"}}
		_, err := m.Start(t.Context(), []workflow.NewRun{run})
		parked := []workflow.Entry{{Run: "r", Fence: run.Fence, Next: workflow.Park, After: 1, Mail: -1}}
		verdicts, written := m.Write(t.Context(), parked)
		if err := errors.Join(err, written, verdicts[0]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(25 * time.Hour)
		if deleted, err := m.Sweep(t.Context(), 0); deleted != 0 || err != nil {
			t.Error(deleted, err)
		}
		r, err := c.Get(t.Context(), "r")
		if err != nil || r.Status != workflow.Failed || r.Error != workflow.UnknownError("w", 1) || r.Hold != "" ||
			!r.Due.IsZero() || r.Completed.IsZero() {
			t.Errorf("%+v, %v", r, err)
		}
		if verdicts, err := m.Write(t.Context(), parked); err != nil || !errors.Is(verdicts[0], workflow.ErrOver) {
			t.Errorf("the former owner is told %v, %v", verdicts, err)
		}
	})
}

// MaxAge is the most that a run is kept.
func TestMaxAge(t *testing.T) {
	t.Setenv("WORKFLOWS_MAX_RETENTION_DAYS", "5")
	for age, want := range map[time.Duration]int{0: 5, 10 * 24 * time.Hour: 10, time.Hour: 1, -1: 1000} {
		m := &workflow.Memory{MaxAge: age}
		run := workflow.NewRun{ID: "r", Workflow: "w", RetentionDays: 1000}
		if _, err := m.Start(t.Context(), []workflow.NewRun{run}); err != nil {
			t.Fatal(err)
		}
		r, err := workflow.NewClient(m).Get(t.Context(), "r")
		if err != nil || r.RetentionDays != want {
			t.Errorf("with MaxAge %v a run is kept for %d days, want %d: %v", age, r.RetentionDays, want, err)
		}
	}
}
