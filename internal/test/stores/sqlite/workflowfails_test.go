package sqlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
)

// If one of the statements of a call about runs fails, the call fails and changes nothing.
func TestFlowFails(t *testing.T) {
	t.Parallel()
	both := func(s flowStore) func(context.Context) error { // the first entry is whole
		return func(ctx context.Context) error {
			entries := []workflow.Entry{
				{Run: "a", Fence: owned("a").Fence, Steps: step("a"), Mail: -1},
				{Run: "b", Fence: owned("b").Fence, Steps: step("failing"), Mail: -1, Next: workflow.Park},
			}
			entries[1].Steps[0].Signal = "s"
			verdicts, err := s.Write(ctx, entries)
			return errors.Join(append(verdicts, err)...)
		}
	}
	send := func(m workflow.Message) func(flowStore) func(context.Context) error {
		return func(s flowStore) func(context.Context) error {
			return func(ctx context.Context) error {
				m.ID, m.Event = "new", "e"
				_, err := s.Send(ctx, []workflow.Message{{Run: "a", Action: workflow.Signal, ID: "n", Event: "e"}, m})
				return err
			}
		}
	}
	claim := func(q workflow.ClaimRequest) func(flowStore) func(context.Context) error {
		return func(s flowStore) func(context.Context) error {
			return func(ctx context.Context) error {
				q.Process, q.Nonce, q.Definitions, q.Limit = "other", "n", order, 10
				_, _, err := s.Claim(ctx, q)
				return err
			}
		}
	}
	start := func(s flowStore) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := s.Start(ctx, []workflow.NewRun{owned("new"), owned("second")})
			return err
		}
	}
	sweep := func(s flowStore) func(context.Context) error {
		return func(ctx context.Context) error { _, err := s.Sweep(ctx, 10); return err }
	}
	lease := workflow.ClaimRequest{Lease: time.Nanosecond, MostCrashes: 9}
	over := workflow.ClaimRequest{From: "me", MostCrashes: 1}
	for event, call := range map[string]func(flowStore) func(context.Context) error{
		"INSERT ON {runs} WHEN new.id = 'second'":          start,
		"INSERT ON {inputs} WHEN new.run = 'second'":       start,
		"INSERT ON {steps} WHEN new.name = 'failing'":      both,
		"UPDATE OF taken ON {signals}":                     both,
		"UPDATE OF since ON {runs} WHEN new.id = 'b'":      both,
		"INSERT ON {signals} WHEN new.id = 'new'":          send(workflow.Message{Run: "b", Action: workflow.Signal}),
		"UPDATE OF mail ON {runs} WHEN new.id = 'b'":       send(workflow.Message{Run: "b", Action: workflow.Signal}),
		"UPDATE OF mail ON {runs} WHEN new.id = 'waiting'": send(workflow.Message{Run: "waiting", Action: workflow.Signal}),
		"UPDATE OF hold ON {runs} WHEN new.id = 'b'":       send(workflow.Message{Run: "b", Action: workflow.Pause}),
		"UPDATE OF status ON {runs} WHEN new.id = 'b'":     send(workflow.Message{Run: "b", Action: workflow.Cancel}),
		"UPDATE OF due ON {runs} WHEN new.id = 'due'":      claim(workflow.ClaimRequest{}),
		"UPDATE OF owner ON {runs} WHEN new.id = 'b'":      claim(lease),
		"UPDATE OF crashes ON {runs} WHEN new.id = 'b'":    claim(lease),
		"UPDATE OF error ON {runs} WHEN new.id = 'b'":      claim(over),
		"INSERT ON {definitions}":                          claim(lease),
		"DELETE ON {runs}":                                 sweep,
		"DELETE ON {inputs}":                               sweep,
		"DELETE ON {steps}":                                sweep,
		"DELETE ON {signals}":                              sweep,
		"DELETE ON {definitions}":                          sweep,
		"UPDATE ON {runs} WHEN new.hold = 'unknown'":       sweep,
	} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			db := sqlitetest.Open(t, testenv.SQLite(t))
			s := flows.create(t, db, options{}).(flowStore)
			prepareFlows(t, s)
			if strings.HasPrefix(event, "DELETE") && !strings.Contains(event, "definitions") {
				sqlitetest.Exec(t, db, "UPDATE holdfast_workflow_runs SET expires = 1 WHERE expires IS NOT NULL")
			}
			if strings.Contains(event, "'unknown'") {
				sqlitetest.Exec(t, db, "UPDATE holdfast_workflow_runs SET due = 1 WHERE id = 'due'")
			}
			if strings.Contains(event, "DELETE ON {definitions}") {
				sqlitetest.Exec(t, db, "INSERT INTO holdfast_workflow_definitions VALUES ('old', 1, 'dead', 1)")
			}
			event = strings.NewReplacer("{", "holdfast_workflow_", "}", "").Replace(event)
			sqlitetest.FailsWhole(t, db, event, call(s), flows.tables...)
		})
	}
}

// prepareFlows makes two runs that are owned, one that waits, one that is due, and one that is over.
func prepareFlows(t *testing.T, s flowStore) {
	t.Helper()
	ctx := t.Context()
	for _, id := range []string{"a", "b", "waiting", "over"} {
		want(t, s.start(ctx, id), nil)
		m := workflow.Message{Run: id, Action: workflow.Signal, ID: "s", Event: "e"}
		want(t, s.send(ctx, m, workflow.Kept), nil)
	}
	_, err := s.Start(ctx, []workflow.NewRun{{ID: "due", Workflow: "order", Version: 1}})
	want(t, err, nil)
	want(t, s.write(ctx, "waiting", workflow.Entry{Next: workflow.Park, Event: "e", Mail: -1}), nil)
	want(t, s.end(ctx, "over"), nil)
}
