package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Page returns the text of a page in the directory docs of the repository, wherever below it the test is.
func Page(tb testing.TB, name string) string {
	tb.Helper()
	up := ".."
	for range 8 {
		if text, err := os.ReadFile(filepath.Join(up, "docs", name)); err == nil {
			return string(text)
		}
		up = filepath.Join(up, "..")
	}
	tb.Fatalf("there is no docs/%s", name)
	return ""
}
