package workflow_test

import (
	"crypto/rand"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/workflow"
)

// A copy of the file in the middle of a sleep, or of a wait, has the same deadline. There the run wakes by itself, in
// both files, and goes on in each as if the other did not exist.
func TestSQLiteCopy(t *testing.T) {
	t.Parallel()
	eachPause(t, func(t *testing.T, event string) {
		file, lite, _ := openFile(t, nil)
		here := branch{t, lite.Workflows()}
		here.pause(event)
		path := filepath.Join(t.TempDir(), "copy.db")
		sqlitetest.Exec(t, file, "VACUUM INTO ?1", path)
		here.diverges(branch{t, sqlite.New(openPath(t, path), nil).Workflows()}, event)
	})
}

// So does a database that is made from another one as its template.
func TestPostgresCopy(t *testing.T) {
	t.Parallel()
	eachPause(t, func(t *testing.T, event string) {
		admin := pgtest.Pool(t)
		name := strings.ToLower("copied_" + rand.Text())
		var both [2]branch
		pgtest.Exec(t, admin, "CREATE DATABASE "+name)
		first, closed := databaseOf(t, admin, name)
		wantErr(t, first.Up(t.Context()), nil)
		branch{t, first.Workflows()}.pause(event)
		closed() // a template has no connection
		pgtest.Exec(t, admin, "CREATE DATABASE "+name+"_copy TEMPLATE "+name)
		for i, name := range []string{name, name + "_copy"} {
			db, _ := databaseOf(t, admin, name)
			both[i] = branch{t, db.Workflows()}
		}
		both[0].diverges(both[1], event)
	})
}

// databaseOf opens a database of a server.
func databaseOf(t *testing.T, admin *pgxpool.Pool, name string) (db *postgres.DB, closed func()) {
	t.Helper()
	c := admin.Config()
	c.ConnConfig.Database = name
	delete(c.ConnConfig.RuntimeParams, "search_path")
	p, err := pgxpool.NewWithConfig(t.Context(), c)
	wantErr(t, err, nil)
	t.Cleanup(p.Close)
	return postgres.New(p, nil), p.Close
}

func eachPause(t *testing.T, f func(t *testing.T, event string)) {
	for name, event := range map[string]string{"a sleep": "", "a wait": "go"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, event)
		})
	}
}

// pause parks a run.
func (b branch) pause(event string) {
	b.t.Helper()
	_, err := b.Start(b.t.Context(), []workflow.NewRun{{ID: "r", Workflow: "w", Version: 1}})
	wantErr(b.t, err, nil)
	b.write(b.claim("r"), workflow.Entry{
		Next: workflow.Park, Event: event, After: 700 * time.Millisecond,
		Steps: []workflow.Step{{
			Name: "pause", Kind: workflow.KindSleep, Outcome: workflow.Open, For: 700 * time.Millisecond,
		}},
	})
}

func (b branch) diverges(there branch, event string) {
	due := b.run("r").Due
	if other := there.run("r").Due; due.IsZero() || !other.Equal(due) {
		b.t.Errorf("due at %v, and the copy at %v", due, other)
	}
	if event != "" { // in one branch the signal comes
		receipts, err := there.Send(b.t.Context(), []workflow.Message{{
			Run: "r", Action: workflow.Signal, ID: "s", Event: event, Payload: json.RawMessage(`1`),
		}})
		if err != nil || receipts[0] != workflow.Consumed {
			b.t.Errorf("the signal to the copy is %s, %v", receipts, err)
		}
		there.end("r", workflow.Failed, time.Time{}, 1)
	} else {
		there.end("r", workflow.Failed, due, 0)
	}
	b.end("r", workflow.Completed, due, 0)
	here, copied := b.run("r").Status, there.run("r").Status
	if here != workflow.Completed || copied != workflow.Failed {
		b.t.Errorf("the run is %s, and %s in the copy", here, copied)
	}
}

// A branch is one of the databases.
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
