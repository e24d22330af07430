package sqlitesnapshot_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
)

func TestMain(m *testing.M) {
	// The driver gives functions to the connections that are opened later.
	sqlitetest.RegisterRemoving()
	sqlitetest.Main(m, nil)
}
