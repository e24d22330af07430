package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// errKey is the key of an error in every log line of the module, so that one search finds them all.
const errKey = "err"

// wrongErrKeys are other names for it.
var wrongErrKeys = []string{"error", "cause", "reason", "failure", "why"}

func TestOneLogKeyForAnError(t *testing.T) {
	lines := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".go" {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		n, wrong := wrongLogKeys(f)
		lines += n
		for _, key := range wrong {
			t.Errorf("%s: a log line has an error under %s, want %q", fset.Position(key.Pos()), key.Value, errKey)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lines < 20 {
		t.Errorf("found %d log lines", lines)
	}
}

func TestWrongLogKeys(t *testing.T) {
	for call, want := range map[string]int{
		`log.Warn("failed", "err", err)`:                                               0,
		`o.Logger.WarnContext(ctx, "failed", "session", s, "err", context.Cause(ctx))`: 0,
		`slog.String("session", s)`:                                                    0,
		`errors.New("reason")`:                                                         0,
		`t.Error("cause", err)`:                                                        0,
		`log.Warn("failed", "error", text)`:                                            1,
		`o.Logger.ErrorContext(ctx, "failed", "session", s, "failed", err)`:            1,
		`slog.String("outcome", err.Error())`:                                          1,
		`slog.Any("cause", x)`:                                                         1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() { "+call+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, wrong := wrongLogKeys(f); len(wrong) != want || n > 1 {
			t.Errorf("%s: found %d wrong keys in %d lines, want %d", call, len(wrong), n, want)
		}
	}
}

// wrongLogKeys returns how many lines a file logs, and the keys that have an error in them and are not errKey.
func wrongLogKeys(f *ast.File) (lines int, wrong []*ast.BasicLit) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		args, ok := attributes(call)
		if !ok {
			return true
		}
		lines++
		for i, arg := range args {
			key, ok := arg.(*ast.BasicLit)
			if !ok || key.Kind != token.STRING {
				continue
			}
			name := strings.Trim(key.Value, `"`)
			isErr := i+1 < len(args) && isError(args[i+1])
			if slices.Contains(wrongErrKeys, name) || isErr && name != errKey {
				wrong = append(wrong, key)
			}
		}
		return true
	})
	return lines, wrong
}

// attributes returns the keys and values of a call that logs, or that makes an attribute.
func attributes(call *ast.CallExpr) (args []ast.Expr, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	var of string
	switch x := method.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	}
	first := 1 // after the message
	switch name := method.Sel.Name; {
	case of == "slog" && slices.Contains([]string{"String", "Any"}, name):
		first = 0
	case !slices.Contains([]string{"slog", "log", "logger", "Logger"}, of):
		return nil, false
	case strings.HasSuffix(name, "Context"):
		first = 2
	case !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, name):
		return nil, false
	}
	return call.Args[min(first, len(call.Args)):], true
}

// isError reports whether an expression has the name of an error: err, r.Err, err.Error(), context.Cause(ctx).
func isError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "err"
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Err", "Error", "Cause"}, e.Sel.Name)
	case *ast.CallExpr:
		return isError(e.Fun)
	}
	return false
}
