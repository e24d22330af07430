package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// saysSkipped is why a test skips that make test runs a second time, without the race detector.
const saysSkipped = "too slow under the race detector; make test runs it without"

// Each test that skips because make test runs it without the race detector is in the Makefile's list of those tests.
func TestRunsWithoutRaceDetector(t *testing.T) {
	run := regexp.MustCompile(variable(t, "WITHOUT_RACE"))
	dir := filepath.FromSlash("../../../internal/test/engine/orchestrator") // where make test runs them
	skipped := skippedIn(t, dir)
	if len(skipped) == 0 {
		t.Errorf("no test in %s says %q", dir, saysSkipped)
	}
	for _, name := range skipped {
		if !run.MatchString(name) {
			t.Errorf("%s skips under the race detector, and WITHOUT_RACE in the Makefile does not match it", name)
		}
	}
	err := filepath.WalkDir("../../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == dir {
			return err
		}
		for _, name := range skippedIn(t, path) {
			t.Errorf("%s in %s says %q, and make test does so in %s only", name, path, saysSkipped, dir)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// skippedIn returns the tests in dir that say saysSkipped.
func skippedIn(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && says(f, saysSkipped) {
				names = append(names, f.Name.Name)
			}
		}
	}
	return slices.Compact(names)
}

// says reports whether f holds the string literal s.
func says(f *ast.FuncDecl, s string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		found = found || ok && lit.Kind == token.STRING && lit.Value == `"`+s+`"`
		return !found
	})
	return found
}
