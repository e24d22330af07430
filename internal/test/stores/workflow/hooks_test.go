package workflow_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

// A hooked store can do what only a test wants: see the kinds of stores of package workflowtest. The store is a pointer
// to that of the database, so that it has all of its methods.
type hooked struct {
	store
	age    func(ctx context.Context, d time.Duration) error
	open   func(ctx context.Context, run string, c workflowtest.Change) (commit func() error, err error)
	damage func(ctx context.Context, run, step string) error
}

func (h hooked) Age(ctx context.Context, d time.Duration) error { return h.age(ctx, d) }

func (h hooked) Open(ctx context.Context, run string, c workflowtest.Change) (commit func() error, err error) {
	return h.open(ctx, run, c)
}

func (h hooked) Damage(ctx context.Context, run, step string) error { return h.damage(ctx, run, step) }

// A store has what both databases have.
type store interface {
	workflow.Store
	workflow.Listener
	lock.Beater
}

// changes are the statements of the changes, with the columns that both databases have. $1 is the run.
var changes = map[workflowtest.Change][]string{
	workflowtest.Taken: {
		`UPDATE holdfast_workflow_runs SET epoch = epoch + 1, nonce = 'taken', owner = 'taker' WHERE id = $1`,
	},
	workflowtest.Ended: {
		`UPDATE holdfast_workflow_runs SET status = 'completed', owner = '', completed = started, output = 'null'
		WHERE id = $1`,
	},
	workflowtest.Parked: {
		`UPDATE holdfast_workflow_runs SET owner = '', due = {never}, event = 'e' WHERE id = $1`,
	},
	workflowtest.Begun: {
		`{lock}`,
		`INSERT INTO holdfast_workflow_runs (id, workflow, version, due, since, epoch, nonce, retention, started, parent{input})
		SELECT 'begun', workflow, version, started, started, 0, '', 30, started, id{value} FROM holdfast_workflow_runs
		WHERE id = $1`,
	},
	workflowtest.Mailed: {
		`UPDATE holdfast_workflow_runs SET mail = mail + 1 WHERE id = $1`,
		`INSERT INTO holdfast_workflow_signals (run, id, event, at, payload)
		SELECT id, 'open', 'e', started, 'null' FROM holdfast_workflow_runs WHERE id = $1`,
	},
}

// stores are the stores with hooks, by database. Each is empty.
var stores = map[string]func(t *testing.T) func(t *testing.T) hooked{
	"postgres": hookedPool,
	"sqlite":   func(*testing.T) func(t *testing.T) hooked { return hookedFile },
}

// everywhere runs a part of the suite that needs hooks.
func everywhere[S any](t *testing.T, run func(t *testing.T, open func(t *testing.T) S), as func(hooked) S) {
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := open(t)
			run(t, func(t *testing.T) S { return as(next(t)) })
		})
	}
}

func TestAging(t *testing.T) {
	everywhere(t, workflowtest.RunAging, func(h hooked) workflowtest.AgingStore { return h })
}

func TestOpening(t *testing.T) {
	everywhere(t, workflowtest.RunOpening, func(h hooked) workflowtest.OpeningStore { return h })
}
