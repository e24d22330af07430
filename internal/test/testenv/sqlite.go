package testenv

import (
	"net/url"
	"path/filepath"
	"testing"
)

// SQLite returns the data source name of a fresh database in a file, for sql.Open("sqlite", …) of modernc.org/sqlite.
// The database is durable at every commit. The caller opens it, and closes it before the test ends.
//
// The database waits a minute for a lock. SQLite has no queue for its writers: they poll, and a writer that has waited
// for long polls less often than one that has just come. If a dozen write on a busy machine, some wait for more than
// 5 s.
func SQLite(tb testing.TB) string {
	path := url.URL{Path: filepath.Join(tb.TempDir(), "test.db")}
	return "file:" + path.EscapedPath() +
		"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
}

// MountReadOnly makes a file or directory read-only until the test ends, for root too.
func MountReadOnly(tb testing.TB, path string) {
	tb.Helper()
	must(tb, mountReadOnly(path))
	tb.Cleanup(func() {
		if err := unmount(path); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
}
