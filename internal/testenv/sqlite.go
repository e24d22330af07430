package testenv

import (
	"net/url"
	"path/filepath"
	"testing"
)

// SQLite returns the data source name of a fresh database in a file, for
// sql.Open("sqlite", …) of modernc.org/sqlite: durable at every commit, and
// waiting 5 s for a lock. The caller opens it, and closes it before the test ends.
func SQLite(tb testing.TB) string {
	path := url.URL{Path: filepath.Join(tb.TempDir(), "test.db")}
	return "file:" + path.EscapedPath() +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}
