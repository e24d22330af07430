package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// Doc returns the text of a page of docs/, for tests of what it says.
func Doc(tb testing.TB, page string) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "docs", page))
		if err == nil {
			return string(text)
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatalf("docs/%s: %v", page, err)
		}
		dir = up
	}
}
