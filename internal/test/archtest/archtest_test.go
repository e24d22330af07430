package archtest

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A listed package is the output of go list for a package.
type listed struct {
	ImportPath, Name, Dir     string
	GoFiles, Imports, Deps    []string
	TestImports, XTestImports []string
}

// list returns the packages of the module.
var list = sync.OnceValues(func() ([]listed, error) {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Name,Dir,GoFiles,Imports,Deps,TestImports,XTestImports",
		module+"/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p listed
		if err := d.Decode(&p); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
})

func packages(t *testing.T) []listed {
	t.Helper()
	all, err := list()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImports(t *testing.T) {
	g := make(graph)
	for _, p := range packages(t) {
		g[relative(p)] = p.Imports
	}
	for _, wrong := range check(g) {
		t.Error(wrong)
	}
}

// A program that uses one backend links that backend's driver only.
func TestLinkedDrivers(t *testing.T) {
	for _, p := range packages(t) {
		if wrong := links(relative(p), p.Deps); len(wrong) > 0 {
			t.Errorf("a program with %s links %v", relative(p), wrong)
		}
	}
}

// A program that imports a package also downloads the imports of the package's tests, because go mod tidy asks for
// them. Therefore a program that keeps its sessions in memory must download no driver.
func TestMemoryDownloadsNoDriver(t *testing.T) {
	all := make(map[string]listed)
	for _, p := range packages(t) {
		all[p.ImportPath] = p
	}
	bot := all[module+"/orchestrator"]
	for _, path := range append(bot.Deps, bot.ImportPath) {
		for _, tested := range slices.Concat(all[path].TestImports, all[path].XTestImports) {
			for _, dep := range append(all[tested].Deps, tested) {
				if hasPrefix(dep, drivers) {
					t.Errorf("%s is tested with %s, which links %s", path, tested, dep)
				}
			}
		}
	}
	if len(bot.Deps) == 0 {
		t.Error("the orchestrator was not found")
	}
}

// Every package has one package comment, in one place.
func TestPackageDocs(t *testing.T) {
	for _, p := range packages(t) {
		if len(p.GoFiles) == 0 {
			continue
		}
		docs := packageDocs(t, p)
		if len(docs) != 1 || !opening(p).MatchString(docs[0]) {
			t.Errorf("%s has %d package comments, want one that matches %v: %.80q", p.ImportPath, len(docs), opening(p),
				docs)
		}
	}
}

// opening matches the first words of a package comment. For a command they may be "Command bench …" or "Bench …",
// as in the standard library.
func opening(p listed) *regexp.Regexp {
	if p.Name != "main" {
		return regexp.MustCompile("^Package " + p.Name + " ")
	}
	name := filepath.Base(p.Dir)
	return regexp.MustCompile("^(Command " + name + "|" + strings.ToUpper(name[:1]) + name[1:] + ") ")
}

func packageDocs(t *testing.T, p listed) []string {
	t.Helper()
	var docs []string
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil,
			parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if text := f.Doc.Text(); text != "" { // "" for directives too
			docs = append(docs, text)
		}
	}
	return docs
}

// homePath matches an absolute path of one machine.
var homePath = regexp.MustCompile(`(^|[^\w.)}-])/(work|home)/\w`)

func TestNoHomePaths(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // a program built here
		}
		if found := homePath.Find(text); found != nil {
			t.Errorf("%s names a path that exists on one machine only: %q…", name, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func relative(p listed) string { return strings.TrimPrefix(p.ImportPath, module+"/") }
