package npm_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/npm"
)

// What is fetched is what package.json names, to the last digit: a range would be another package tomorrow.
func TestVersions(t *testing.T) {
	type manifest struct {
		Version      string
		Dependencies map[string]string
	}
	read := func(path string) (m manifest) {
		t.Helper()
		doc, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(doc, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	dir := npm.Dir(t)
	for name, version := range read("package.json").Dependencies {
		fetched := read(filepath.Join(dir, "node_modules", name, "package.json")).Version
		if want := version[strings.LastIndexByte(version, '@')+1:]; fetched != want {
			t.Errorf("%s: %s was fetched, and package.json says %s", name, fetched, want)
		}
	}
}
