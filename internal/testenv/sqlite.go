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

// MountReadOnly makes a file or directory read-only until the test ends, also for root.
func MountReadOnly(tb testing.TB, path string) {
	tb.Helper()
	must(tb, mountReadOnly(path))
	tb.Cleanup(func() {
		if err := unmount(path); err != nil {
			tb.Errorf("testenv: %v", err)
		}
	})
}
