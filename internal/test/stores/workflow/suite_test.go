package workflow_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestStore(t *testing.T) { each(t, workflowtest.Run) }

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	workflowtest.Run(t, func(t *testing.T) workflow.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, "_My1")
	})
}
