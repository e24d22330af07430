package workflow_test

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
)

// A copy of the file in the middle of a sleep, or of a wait, has the same deadline. There the run wakes by itself, in
// both files, and goes on in each as if the other did not exist.
func TestSQLiteCopy(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{"a sleep": "", "a wait": "go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, lite, _ := openFile(t, nil)
			here := branch{t, lite.Workflows()}
			_, err := here.Start(t.Context(), []workflow.NewRun{{ID: "r", Workflow: "w", Version: 1}})
			wantErr(t, err, nil)
			here.write(here.claim("r"), workflow.Entry{
				Next: workflow.Park, Event: event, After: 700 * time.Millisecond,
				Steps: []workflow.Step{{
					Name: "pause", Kind: workflow.KindSleep, Outcome: workflow.Open, For: 700 * time.Millisecond,
				}},
			})
			path := filepath.Join(t.TempDir(), "copy.db")
			sqlitetest.Exec(t, file, "VACUUM INTO ?1", path)
			there := branch{t, sqlite.New(openPath(t, path), nil).Workflows()}
			due := here.run("r").Due
			if other := there.run("r").Due; due.IsZero() || !other.Equal(due) {
				t.Errorf("due at %v, and the copy at %v", due, other)
			}
			if event != "" { // in one branch the signal comes
				receipts, err := there.Send(t.Context(), []workflow.Message{{
					Run: "r", Action: workflow.Signal, ID: "s", Event: event, Payload: json.RawMessage(`1`),
				}})
				if err != nil || receipts[0] != workflow.Consumed {
					t.Errorf("the signal to the copy is %s, %v", receipts, err)
				}
				there.end("r", workflow.Failed, time.Time{}, 1)
			} else {
				there.end("r", workflow.Failed, due, 0)
			}
			here.end("r", workflow.Completed, due, 0)
			if a, b := here.run("r").Status, there.run("r").Status; a != workflow.Completed || b != workflow.Failed {
				t.Errorf("the run is %s, and %s in the copy", a, b)
			}
		})
	}
}

// A branch is one of the files.
type branch struct {
	t *testing.T
	workflow.Store
}

func (b branch) run(id string) workflow.Run {
	b.t.Helper()
	r, err := workflow.NewClient(b.Store).Get(b.t.Context(), id)
	wantErr(b.t, err, nil)
	return r
}

// claim claims a run as soon as it is due.
func (b branch) claim(id string) workflow.Claimed {
	b.t.Helper()
	for {
		claimed, next, err := b.Claim(b.t.Context(), workflow.ClaimRequest{
			Process: "p", Nonce: workflow.NewID(), Limit: 1,
			Definitions: []workflow.Definition{{Workflow: "w", Version: 1}},
		})
		switch {
		case err != nil || len(claimed) == 0 && next == 0:
			b.t.Fatalf("claimed are %d, the next after %v: %v", len(claimed), next, err)
		case len(claimed) > 0 && claimed[0].ID == id:
			return claimed[0]
		}
		time.Sleep(next)
	}
}

func (b branch) write(c workflow.Claimed, e workflow.Entry) {
	b.t.Helper()
	e.Run, e.Fence, e.Mail = c.ID, c.Fence, c.Mail
	verdicts, err := b.Write(b.t.Context(), []workflow.Entry{e})
	if err != nil || verdicts[0] != nil {
		b.t.Fatal(verdicts, err)
	}
}

// end claims a run when it is due, which is not before the deadline, and ends it. It has got so many signals.
func (b branch) end(id string, s workflow.Status, due time.Time, mail int64) {
	b.t.Helper()
	c := b.claim(id)
	if c.Now.Before(due) || c.Mail != mail {
		b.t.Errorf("woken at %v with %d signals, and the deadline is %v", c.Now, c.Mail, due)
	}
	b.write(c, workflow.Entry{Next: workflow.End, Status: s})
}
