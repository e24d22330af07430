package turnlogs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/workflow"
)

// A WorkflowLog is a turn log in the mailboxes of workflow runs that no engine runs. The run of a turn has its id, and
// a signal for each entry.
type WorkflowLog struct{ Store workflow.Front }

// Record sends a signal. If there is such a signal, Record compares the states.
func (l WorkflowLog) Record(ctx context.Context, e turnlog.Entry) error {
	if err := e.Validate(); err != nil {
		return err
	}
	run := workflow.NewRun{ID: e.Run, Workflow: "turn-log", Version: 1, Delay: workflow.MaxDelay}
	if _, err := l.Store.Start(ctx, []workflow.NewRun{run}); err != nil {
		return err
	}
	id := e.At.UTC().Format(turnlog.TimeFormat) + " " + e.Phase
	if _, err := l.Store.Send(ctx, []workflow.Message{{
		Run: e.Run, Action: workflow.Signal, ID: id, Event: e.Session, Payload: e.State,
	}}); err != nil {
		return err
	}
	for st, err := range l.Store.Steps(ctx, e.Run) {
		if err != nil {
			return err
		}
		if st.Signal == id && !turnlog.Same(st.Output, e.State) {
			return turnlog.ErrChanged
		}
	}
	return nil
}

// Restore reads the signals of a run in the order of their times.
func (l WorkflowLog) Restore(ctx context.Context, run string) (all []turnlog.Entry, err error) {
	if err := turnlog.ValidateRun(run); err != nil {
		return nil, err
	}
	for st, err := range l.Store.Steps(ctx, run) {
		if err != nil {
			return nil, err
		}
		at, phase, _ := strings.Cut(st.Signal, " ")
		e := turnlog.Entry{Run: run, Session: st.Name, Phase: phase, State: st.Output}
		if e.At, err = time.Parse(turnlog.TimeFormat, at); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b turnlog.Entry) int { return a.At.Compare(b.At) })
	return all, nil
}
