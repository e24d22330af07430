package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOneFilePlan makes the backends of a contract comparable side by side: each of them has the method Claim in
// claim.go, Append in append.go, and so on.
func TestOneFilePlan(t *testing.T) {
	dirs := make(map[string]string)
	for _, p := range packages(t) {
		dirs[relative(p)] = p.Dir
	}
	for contract, least := range map[string]int{
		"checkpoint": 3, "snapshot": 3, "ledger": 1, "turnlog": 2, "stream": 3, "inbox": 3, "workflow": 2,
		"transcript": 3,
	} {
		methods := interfaceMethods(t, dirs[contract])
		backends := 0
		for name, dir := range dirs {
			if !hasPrefix(name, trees) || !strings.HasSuffix(name, contract) {
				continue
			}
			backends++
			for method, file := range storeMethods(t, dir) {
				if want := strings.ToLower(method) + ".go"; slices.Contains(methods, method) && file != want {
					t.Errorf("%s: %s is in %s, want %s", name, method, file, want)
				}
			}
		}
		if backends < least || len(methods) < 3 {
			t.Errorf("found %d backends of %s, and %q", backends, contract, methods)
		}
	}
}

// interfaceMethods returns the names of the methods of all interfaces that a package declares.
func interfaceMethods(t *testing.T, dir string) (names []string) {
	for _, f := range parsed(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			if i, ok := n.(*ast.InterfaceType); ok {
				for _, m := range i.Methods.List {
					for _, name := range m.Names {
						names = append(names, name.Name)
					}
				}
			}
			return true
		})
	}
	return names
}

// storeMethods returns the exported methods of the type Store, Ledger or Log, and the file of each.
func storeMethods(t *testing.T, dir string) map[string]string {
	methods := make(map[string]string)
	for file, f := range parsed(t, dir) {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			if star, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok {
				if of, ok := star.X.(*ast.Ident); ok && slices.Contains([]string{"Store", "Ledger", "Log"}, of.Name) {
					methods[fn.Name.Name] = file
				}
			}
		}
	}
	return methods
}

// parsed returns the files of a package without its tests, by name.
func parsed(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]*ast.File)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = f
	}
	return files
}
