package testenv

import (
	"path/filepath"
	"testing"
)

// SQLite returns the data source name of a fresh database in a file, for
// sql.Open("sqlite", …) of modernc.org/sqlite: durable at every commit, and
// waiting 5 s for a lock. The caller opens it, and closes it before the test ends.
func SQLite(tb testing.TB) string {
	return "file:" + filepath.Join(tb.TempDir(), "test.db") +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}
