package archtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The files of orchestrator stand in docs/design.md from top to bottom. A file uses what the files below it declare,
// and nothing above it.
func TestFilesPointDownwards(t *testing.T) {
	order := fileOrder(t)
	place := make(map[string]int)
	for i, name := range order {
		place[name] = i
	}
	var wrong []string
	for _, name := range files(t, "orchestrator") {
		if _, known := place[filepath.Base(name)]; !known {
			wrong = append(wrong, filepath.Base(name)+" is not in docs/design.md")
		}
		delete(place, filepath.Base(name))
	}
	for name := range place {
		wrong = append(wrong, name+" is in docs/design.md and not in orchestrator")
	}
	for i, name := range order {
		place[name] = i
	}
	for _, use := range usesBetweenFiles(t, "orchestrator") {
		if place[use.to] < place[use.from] {
			wrong = append(wrong, fmt.Sprintf("%s uses %s of %s, which stands above it", use.from, use.name, use.to))
		}
	}
	slices.Sort(wrong)
	for _, w := range slices.Compact(wrong) {
		t.Error(w)
	}
}

// fileOrder returns the files of orchestrator in the order of docs/design.md.
func fileOrder(t *testing.T) []string {
	t.Helper()
	design, err := os.ReadFile("../../../docs/design.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := bytes.Cut(design, []byte("<!-- files of orchestrator, from top to bottom -->"))
	table, _, end := bytes.Cut(table, []byte("<!-- end of the files -->"))
	if !found || !end {
		t.Fatal("docs/design.md has no list of the files of orchestrator")
	}
	var order []string
	for _, name := range regexp.MustCompile("`([a-z0-9_]+\\.go)`").FindAllSubmatch(table, -1) {
		order = append(order, string(name[1]))
	}
	return order
}

// A use is a name that a file uses and another file of its package declares.
type use struct{ from, to, name string }

// usesBetweenFiles returns the uses in a package of the module: its types, functions, methods, variables and constants.
func usesBetweenFiles(t *testing.T, dir string) []use {
	t.Helper()
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files(t, dir) {
		built, err := build.Default.MatchFile(filepath.Split(name))
		if err != nil {
			t.Fatal(err)
		}
		if !built {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", exportData(t, dir))}
	pkg, err := config.Check(module+"/"+dir, set, parsed, info)
	if err != nil {
		t.Fatal(err)
	}
	var uses []use
	for id, obj := range info.Uses {
		if f, ok := obj.(*types.Func); ok {
			obj = f.Origin() // of a method of a generic type
		}
		if obj.Pkg() != pkg || !declares(pkg, obj) {
			continue
		}
		from := filepath.Base(set.Position(id.Pos()).Filename)
		if to := filepath.Base(set.Position(obj.Pos()).Filename); from != to {
			uses = append(uses, use{from, to, obj.Name()})
		}
	}
	return uses
}

// files returns the files of a package of the module, without tests.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
}

// declares reports whether obj is declared at the top level of a file, or is a method.
func declares(pkg *types.Package, obj types.Object) bool {
	if f, ok := obj.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return obj.Parent() == pkg.Scope()
}

// exportData returns the compiled packages that the package in dir imports.
func exportData(t *testing.T, dir string) func(path string) (io.ReadCloser, error) {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export", module+"/"+dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]string)
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
}
