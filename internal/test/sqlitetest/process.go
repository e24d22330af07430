package sqlitetest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Role is the work of another process with a database, which gets the data source name.
type Role = testenv.Role

// Main is for TestMain. It runs the role that Start asks for, or the tests.
func Main(m *testing.M, roles map[string]Role) { testenv.MainWith(m, roles) }

// A Child is another process that runs a role. It is killed before the test ends.
type Child = testenv.Child

// Start starts a process that runs a role.
func Start(t *testing.T, role, dsn string) Child {
	t.Helper()
	return testenv.StartRole(t, role, dsn)
}
