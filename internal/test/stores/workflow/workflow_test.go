// Package workflow_test runs the cases of a store of workflows over all databases. What one database alone has is in a
// test with its name.
package workflow_test

import (
	"database/sql"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases hold workflows. open returns an empty one.
var databases = []struct {
	name string
	open func(t *testing.T) workflow.Store
}{
	{"memory", func(*testing.T) workflow.Store { return new(workflow.Memory) }},
	{"sqlite", func(t *testing.T) workflow.Store { return onSQLite(t, sqlitetest.Open(t, testenv.SQLite(t)), "") }},
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
