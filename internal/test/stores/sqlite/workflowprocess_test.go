package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
)

// contendedFlows is for how many runs processes contend, and flowSteps is how many steps each has.
const contendedFlows, flowSteps = 12, 6

// A stepped is what a process was told about a step that it wrote.
type stepped struct {
	Run, Step, Nonce, Verdict string
}

// contendForFlows claims runs, also those of others, and writes the step that its journal lacks, until all runs are
// over.
func contendForFlows(db *sql.DB, say func(any)) error {
	s := flowStore{sqliteworkflow.New(db, nil)}
	ctx := context.Background()
	return together(1, func() bool { return s.over(ctx) }, func(goroutine int) error {
		q := workflow.ClaimRequest{
			Process: fmt.Sprintf("%d-%d", os.Getpid(), goroutine), Nonce: fmt.Sprintf("%016x", rand.Uint64()),
			Definitions: order, Limit: 2,
		}
		if rand.N(2) == 0 {
			q.Lease, q.MostCrashes = time.Nanosecond, 1<<20
		}
		claimed, _, err := s.Claim(ctx, q)
		if err != nil {
			return err
		}
		for _, c := range claimed {
			for err == nil && rand.N(4) > 0 {
				err = s.advance(ctx, c, say)
			}
			if err != nil && !errors.Is(err, lock.ErrFenced) && !errors.Is(err, workflow.ErrOver) {
				return err
			}
			err = nil
		}
		return nil
	})
}

// over reports whether all runs are over.
func (s flowStore) over(ctx context.Context) bool {
	counts, err := s.Counts(ctx)
	return err != nil || counts["order"][workflow.Running] == 0
}

// advance writes the next step of a run, or its end. It returns the verdict.
func (s flowStore) advance(ctx context.Context, c workflow.Claimed, say func(any)) error {
	n := 0
	for _, err := range s.Steps(ctx, c.ID) {
		if err != nil {
			return err
		}
		n++
	}
	e := workflow.Entry{Run: c.ID, Fence: c.Fence, Mail: -1}
	if n == flowSteps {
		e.Next, e.Status = workflow.End, workflow.Completed
	} else {
		e.Steps = step(fmt.Sprint("s", n))
		e.Steps[0].Output = json.RawMessage(`"` + c.Fence.Nonce + `"`)
		if rand.N(3) == 0 {
			e.Next, e.After = workflow.Park, time.Nanosecond
		}
	}
	verdicts, err := s.Write(ctx, []workflow.Entry{e})
	if err != nil {
		return err
	}
	told := stepped{Run: c.ID, Nonce: c.Fence.Nonce}
	if len(e.Steps) > 0 {
		told.Step = e.Steps[0].Name
	}
	if verdicts[0] != nil {
		told.Verdict = verdicts[0].Error()
	}
	say(told)
	if verdicts[0] == nil && e.Next == workflow.Park {
		return lock.ErrFenced // the run is nobody's
	}
	return verdicts[0]
}

// Each step has one row. It is of the one owner that was told so, and no owner that was fenced off has written.
func flowProcesses(t *testing.T, of subject, _ *sql.DB, dsn string) {
	s := of.(flowStore)
	for i := range contendedFlows {
		_, err := s.Start(t.Context(), []workflow.NewRun{{ID: fmt.Sprint("r", i), Workflow: "order", Version: 1}})
		want(t, err, nil)
	}
	wrote, refused, owners := make(map[[2]string]string), 0, make(map[string]bool)
	contended(t, "workflow", dsn, 3, func(e stepped) {
		step := [2]string{e.Run, e.Step}
		switch {
		case e.Verdict != "":
			refused++
		case e.Step == "":
		case wrote[step] != "":
			t.Errorf("%s of %s was acknowledged to %s and %s", e.Step, e.Run, wrote[step], e.Nonce)
		default:
			wrote[step], owners[e.Nonce] = e.Nonce, true
		}
	})
	for i := range contendedFlows {
		id, n := fmt.Sprint("r", i), 0
		for st, err := range s.Steps(t.Context(), id) {
			want(t, err, nil)
			if of := wrote[[2]string{id, st.Name}]; string(st.Output) != `"`+of+`"` {
				t.Errorf("%s of %s is %s, and was acknowledged to %q", st.Name, id, st.Output, of)
			}
			n++
		}
		if n != flowSteps {
			t.Errorf("%s has %d steps", id, n)
		}
	}
	if refused == 0 || len(owners) < 2*contendedFlows {
		t.Errorf("they hardly met: %d writes were refused, of %d owners", refused, len(owners))
	}
	t.Logf("%d writes were refused, of %d owners", refused, len(owners))
}
