package sqlitecheckpoint_test

import (
	"testing"

	"modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
)

func TestMain(m *testing.M) {
	// The driver gives functions to the connections that are opened later.
	sqlite.MustRegisterScalarFunction("remove_database", 1, removeDatabase)
	sqlitetest.Main(m, map[string]sqlitetest.Role{"contend": contend, "append": appendForever})
}
