// Package workflow_test runs the cases of a store of workflows over all databases. What one database alone has is in a
// test with its name.
package workflow_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases hold workflows. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) workflow.Store
}{
	{"memory", func(*testing.T) workflow.Store { return new(workflow.Memory) }},
	{"postgres", onPostgres.Open},
	{"sqlite", func(t *testing.T) workflow.Store { return onSQLite(t, sqlitetest.Open(t, testenv.SQLite(t)), "") }},
}

var onPostgres = pgtest.Kind[workflow.Store]{
	New: func(db pgtest.DB, prefix string) workflow.Store {
		return pgworkflow.New(db, &pgworkflow.Options{Prefix: prefix})
	},
	Suite: workflowtest.Run, Violations: workflowtest.Violations,
	Fill:  func(t *testing.T, s workflow.Store) { start(t, s, "kept") },
	Read:  func(t *testing.T, s workflow.Store) string { return strings.Join(list(t, s), " ") },
	Calls: calls, Writes: []string{"Start", "Send", "Claim", "Write", "Claim within", "Subscribe", "Unsubscribe"},
	Tables: []string{
		"workflow_runs", "workflow_steps", "workflow_signals", "workflow_definitions", "workflow_limits",
		"workflow_subscriptions",
	},
	Schema: workflow.ErrSchema, Refused: workflow.ErrRefused,
}

func each(t *testing.T, test func(t *testing.T, open func(t *testing.T) workflow.Store)) {
	t.Parallel()
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d.open)
		})
	}
}

func onSQLite(tb testing.TB, db *sql.DB, prefix string) workflow.Store {
	tb.Helper()
	s := sqliteworkflow.New(db, &sqliteworkflow.Options{Prefix: prefix})
	sqlitetest.Exec(tb, db, s.Schema())
	return s
}

// definitions are those of the runs of these tests.
var definitions = []workflow.Definition{{Workflow: "flow", Version: 1}}

// starting returns a run that process a owns from its start.
func starting(id string) workflow.NewRun {
	return workflow.NewRun{
		ID: id, Workflow: "flow", Version: 1, Input: json.RawMessage(`{"n":1}`),
		Owner: "a", Fence: lock.Fence{Epoch: 1, Nonce: "of " + id},
	}
}

func start(t *testing.T, s workflow.Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if started, err := s.Start(t.Context(), []workflow.NewRun{starting(id)}); err != nil || !started[0].New {
			t.Fatalf("Start of %q: %+v, %v", id, started, err)
		}
	}
}

// list returns the ids of all runs.
func list(t *testing.T, s workflow.Store) (ids []string) {
	t.Helper()
	for r, err := range s.Runs(t.Context(), workflow.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

// calls calls every method and returns the errors by name.
func calls(ctx context.Context, s workflow.Store) map[string]error {
	last := func(all func(yield func(error) bool)) (err error) {
		for e := range all {
			err = e
		}
		return err
	}
	_, started := s.Start(ctx, []workflow.NewRun{starting("r")})
	_, sent := s.Send(ctx, []workflow.Message{{Run: "r", Action: workflow.Signal, ID: "s", Event: "e"}})
	q := workflow.ClaimRequest{Process: "b", Nonce: "n", Definitions: definitions, Limit: 1}
	_, _, claimed := s.Claim(ctx, q)
	_, written := s.Write(ctx, []workflow.Entry{{Run: "r", Fence: starting("r").Fence, Mail: -1, Steps: []workflow.Step{
		{Name: "s", Kind: workflow.KindStep, Outcome: workflow.Done},
	}}})
	_, counted := s.Counts(ctx)
	due := workflow.NewRun{ID: "due", Workflow: definitions[0].Workflow, Version: definitions[0].Version}
	_, within := s.Start(ctx, []workflow.NewRun{due})
	if within == nil {
		q.Limits = map[string]workflow.Limit{due.Workflow: {PerSecond: 1}}
		_, _, within = s.Claim(ctx, q)
	}
	_, subscribed := s.Subscriptions(ctx)
	return map[string]error{
		"Subscribe":   s.Subscribe(ctx, workflow.Subscription{ID: "s", Pattern: "#", Workflow: "flow"}),
		"Unsubscribe": s.Unsubscribe(ctx, "s"), "Subscriptions": subscribed,
		"Start": started, "Send": sent, "Claim": claimed, "Write": written, "Counts": counted,
		"Claim within": within,
		"Runs": last(func(yield func(error) bool) {
			for _, err := range s.Runs(ctx, workflow.Query{}) {
				yield(err)
			}
		}),
		"Steps": last(func(yield func(error) bool) {
			for _, err := range s.Steps(ctx, "r") {
				yield(err)
			}
		}),
	}
}
