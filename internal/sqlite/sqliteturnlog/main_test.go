package sqliteturnlog_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
)

func TestMain(m *testing.M) {
	sqlitetest.Main(m, map[string]sqlitetest.Role{"record": recordForever, "contend": contend})
}
