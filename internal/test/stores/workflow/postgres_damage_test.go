package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgworkflow"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// long is a document that is stored out of line.
const long = "to_jsonb(repeat('x', 10000))"

// outOfLine makes documents lie outside of their rows, as they are.
func outOfLine(t *testing.T, p *pgxpool.Pool, prefix string) {
	t.Helper()
	pgtest.Exec(t, p, "ALTER TABLE "+prefix+"workflow_runs ALTER COLUMN input SET STORAGE EXTERNAL")
	pgtest.Exec(t, p, "ALTER TABLE "+prefix+"workflow_steps ALTER COLUMN output SET STORAGE EXTERNAL")
}

// A run or a step whose document the server itself cannot read is damaged, as is one that no store wrote.
func TestPostgresLostChunk(t *testing.T) {
	t.Parallel()
	_, p, _ := onPostgres.Private(t, nil)
	n := 0
	workflowtest.RunDamaged(t, func(t *testing.T) workflowtest.DamagingStore {
		n++
		prefix := fmt.Sprintf("torn%d_", n)
		h := onPool(p, onPostgres.On(t, p, prefix).(*pgworkflow.Store))
		outOfLine(t, p, prefix)
		h.damage = func(ctx context.Context, run, step string) error {
			table, text := "workflow_runs", "SET input = "+long+" WHERE id = $1 AND '' = $2"
			if step != "" {
				table, text = "workflow_steps", "SET output = "+long+" WHERE run = $1 AND name = $2"
			}
			if _, err := p.Exec(ctx, "UPDATE "+prefix+table+" "+text, run, step); err != nil {
				return err
			}
			return testenv.LoseChunk(ctx, p, prefix+table)
		}
		return h
	})
}

// A claim holds a run whose input the server cannot read, and gets the others. Otherwise each claim would meet the run.
func TestPostgresClaimUnread(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, nil)
	outOfLine(t, p, "holdfast_")
	c := caller{t, s}
	owned := begun("owned")
	owned.Owner = "dead"
	check(t, c.start(keyed("torn", ""), owned, keyed("whole", ""))())
	for _, id := range []string{"torn", "owned"} {
		pgtest.Exec(t, p, "UPDATE holdfast_workflow_runs SET input = "+long+" WHERE id = $1", id)
		check(t, testenv.LoseChunk(t.Context(), p, "holdfast_workflow_runs"))
	}
	from := claimOf("b")
	from.From = "dead"
	check(t, c.claim(0, from)())
	claimed, _, err := s.Claim(t.Context(), claimOf("b"))
	check(t, err)
	if len(claimed) != 1 || claimed[0].ID != "whole" || string(claimed[0].Input) != `{"n": 1}` {
		t.Errorf("claimed %+v", claimed)
	}
	for _, id := range []string{"torn", "owned"} {
		for r, err := range s.Runs(t.Context(), workflow.Query{ID: id}) {
			if !errors.Is(err, workflow.ErrDamaged) || r.Hold != workflow.Drifted || r.Error == "" {
				t.Errorf("%s is %+v, %v", id, r, err)
			}
		}
	}
	check(t, c.claim(0, claimOf("c"))())
}

// A list by the input goes on after a run whose input the server cannot read.
func TestPostgresListUnread(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, nil)
	outOfLine(t, p, "holdfast_")
	c := caller{t, s}
	for i := range 40 {
		check(t, c.start(keyed(fmt.Sprint("r", i), ""))())
	}
	pgtest.Exec(t, p, "UPDATE holdfast_workflow_runs SET input = "+long+" WHERE id IN ('r3', 'r30')")
	check(t, testenv.LoseChunk(t.Context(), p, "holdfast_workflow_runs"))
	whole, damaged := 0, 0
	for _, err := range s.Runs(t.Context(), workflow.Query{Workflow: "w", Input: []byte(`{"n":1}`)}) {
		if errors.Is(err, workflow.ErrDamaged) {
			damaged++
			continue
		}
		check(t, err)
		whole++
	}
	if whole != 38 || damaged != 1 { // the input of the other one is no object
		t.Errorf("%d runs, and %d damaged", whole, damaged)
	}
}
