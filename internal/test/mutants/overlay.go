package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The environment that a changed package reads.
const (
	mutantEnv  = "HOLDFAST_MUTANT"         // the number of the mutant that is switched on; 0 or empty for none
	reachedEnv = "HOLDFAST_MUTANT_REACHED" // a file to which the number of each mutant is added that a test comes by
)

// switches is added to a package. The functions are small, because every line of the package may call them.
const switches = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	_on, _      = strconv.Atoi(os.Getenv("` + mutantEnv + `"))
	_reached, _ = os.OpenFile(os.Getenv("` + reachedEnv + `"), os.O_APPEND|os.O_WRONLY, 0)
	_seen       [%d]atomic.Bool
)

func _mutant(id int) bool {
	if _reached != nil {
		_reach(id)
	}
	return id == _on
}

func _reach(id int) {
	if !_seen[id].Swap(true) {
		_reached.WriteString(strconv.Itoa(id) + "\n")
	}
}

type _number interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

func _one[T _number](id int) T {
	if _mutant(id) {
		return 1
	}
	return 0
}

func _instead[T any](id int, other, as T) T {
	if _mutant(id) {
		return other
	}
	return as
}
`

// A goPackage is the answer of go list about a package.
type goPackage struct {
	ImportPath, Name, Dir, Export string
	GoFiles, CgoFiles             []string
	DepOnly, Standard             bool
	Module                        *struct{ GoVersion string }
}

// A subject is a package that is changed.
type subject struct {
	goPackage
	files       []*file
	sites       []*site // only sites that compile
	notCompiled int
	lookup      importer.Lookup
	fset        *token.FileSet
}

// load reads and type-checks a package and finds its mutants.
func load(g goTool, pattern string) (*subject, error) {
	// The switches need the packages behind the pattern.
	listed, err := g.list(pattern, "os", "strconv", "sync/atomic")
	if err != nil {
		return nil, err
	}
	s := &subject{fset: token.NewFileSet()}
	exports := make(map[string]string)
	for _, p := range listed {
		exports[p.ImportPath] = p.Export
		if !p.DepOnly && !p.Standard {
			s.goPackage = p
		}
	}
	s.lookup = func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	if len(s.GoFiles) == 0 {
		return nil, fmt.Errorf("%s has no Go files", pattern)
	}
	for _, name := range s.GoFiles {
		name = filepath.Join(s.Dir, name)
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, &file{name: name, text: string(text)})
	}
	return s, s.findSites()
}

func (s *subject) findSites() error {
	texts := make(map[string]string)
	for _, f := range s.files {
		texts[f.name] = f.text
	}
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue),
		Defs:  make(map[*ast.Ident]types.Object), Uses: make(map[*ast.Ident]types.Object),
	}
	trees, pkg, errs := s.check(texts, info)
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, f := range s.files {
		f.tree, f.fset, f.info, f.pkg = trees[f.name], s.fset, info, pkg
		s.sites = append(s.sites, f.sites(len(s.sites))...)
	}
	return s.dropBroken()
}

// check parses and type-checks the texts of the package.
func (s *subject) check(texts map[string]string, info *types.Info) (map[string]*ast.File, *types.Package, []error) {
	var errs []error
	trees := make(map[string]*ast.File)
	var list []*ast.File
	for name, text := range texts {
		tree, err := parser.ParseFile(s.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, append(errs, err)
		}
		trees[name] = tree
		list = append(list, tree)
	}
	conf := types.Config{
		Importer: importer.ForCompiler(s.fset, "gc", s.lookup),
		Error:    func(err error) { errs = append(errs, err) },
	}
	if s.Module != nil {
		conf.GoVersion = "go" + s.Module.GoVersion
	}
	pkg, _ := conf.Check(s.ImportPath, s.fset, list, info) // Error has all errors
	return trees, pkg, errs
}

// dropBroken leaves the sites whose changes compile.
func (s *subject) dropBroken() error {
	for {
		texts, spans := s.changed()
		_, _, errs := s.check(texts, nil)
		if len(errs) == 0 {
			return nil
		}
		broken := make(map[*site]bool)
		for _, err := range errs {
			at, ok := errors.AsType[types.Error](err)
			if !ok {
				return err
			}
			p := s.fset.Position(at.Pos)
			for _, b := range blamed(spans[p.Filename], texts[p.Filename], p.Offset) {
				broken[b] = true
			}
		}
		if len(broken) == 0 {
			return errors.Join(errs...)
		}
		s.notCompiled += len(broken)
		s.sites = slices.DeleteFunc(s.sites, func(b *site) bool { return broken[b] })
	}
}

// A span is where the text of a site stands in a changed file.
type span struct {
	site       *site
	start, end int
}

// blamed returns the sites that an error at an offset is of: the innermost around it, else those on its line.
func blamed(spans []span, text string, offset int) []*site {
	var inner span
	for _, s := range spans {
		if s.start <= offset && offset < s.end && (inner.site == nil || s.end-s.start <= inner.end-inner.start) {
			inner = s
		}
	}
	if inner.site != nil {
		return []*site{inner.site}
	}
	first := strings.LastIndexByte(text[:offset], '\n')
	last := len(text)
	if i := strings.IndexByte(text[offset:], '\n'); i >= 0 {
		last = offset + i
	}
	var line []*site
	for _, s := range spans {
		if s.start > first && s.start < last {
			line = append(line, s.site)
		}
	}
	return line
}

// changed returns the texts of the package with all its mutants, each switched off.
func (s *subject) changed() (texts map[string]string, spans map[string][]span) {
	texts, spans = make(map[string]string), make(map[string][]span)
	last := 0
	for _, f := range s.files {
		texts[f.name], spans[f.name] = f.changed(s.sites)
	}
	for _, site := range s.sites {
		last = max(last, site.id)
	}
	texts[filepath.Join(s.Dir, "zz_mutants.go")] = fmt.Sprintf(switches, s.Name, last+1)
	return texts, spans
}

func (f *file) changed(sites []*site) (string, []span) {
	var mine []*site
	for _, s := range sites {
		if s.file == f {
			mine = append(mine, s)
		}
	}
	// Of sites that begin together, the longest is around the others.
	slices.SortStableFunc(mine, func(a, b *site) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var text strings.Builder
	var spans []span
	var open []int // of spans
	at := 0
	closeUntil := func(offset int) {
		for len(open) > 0 && spans[open[len(open)-1]].site.end <= offset {
			i := open[len(open)-1]
			open = open[:len(open)-1]
			text.WriteString(f.text[at:spans[i].site.end])
			at = spans[i].site.end
			text.WriteString(spans[i].site.after)
			spans[i].end = text.Len()
		}
	}
	for _, s := range mine {
		closeUntil(s.start)
		text.WriteString(f.text[at:s.start])
		at = s.start
		open = append(open, len(spans))
		spans = append(spans, span{site: s, start: text.Len()})
		text.WriteString(s.before)
	}
	closeUntil(len(f.text))
	text.WriteString(f.text[at:])
	return text.String(), spans
}

// overlay writes the changed package to dir and returns the file for -overlay.
func (s *subject) overlay(dir string) (string, error) {
	texts, _ := s.changed()
	replace := make(map[string]string)
	for name, text := range texts {
		to := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[name] = to
	}
	doc, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, doc, 0o600)
}
