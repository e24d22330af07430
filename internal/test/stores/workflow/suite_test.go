package workflow_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

func TestStore(t *testing.T) { each(t, workflowtest.Run) }

func TestIsolation(t *testing.T) { onPostgres.TestIsolation(t) }

func TestStoreBehind(t *testing.T) { onPostgres.TestBehind(t) }

func TestStorePgBouncer(t *testing.T) { onPostgres.TestPgBouncer(t) }

func TestStoreQualified(t *testing.T) { onPostgres.TestQualified(t) }

func TestPostgresPrefix(t *testing.T) { onPostgres.TestPrefix(t) }

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestPostgresUnreachable(t *testing.T) {
	t.Parallel()
	onPostgres.TestUnreachable(t, workflowtest.RunUnreachable)
}

func TestPostgresEncoding(t *testing.T) { onPostgres.TestEncoding(t) }

func TestPostgresSchemaMissing(t *testing.T) { onPostgres.TestSchemaMissing(t) }

func TestPostgresSchemaAgain(t *testing.T) { onPostgres.TestSchemaAgain(t) }

func TestPostgresReadOnly(t *testing.T) { onPostgres.TestReadOnly(t) }

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	workflowtest.Run(t, func(t *testing.T) workflow.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, "_My1")
	})
}
