package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"strconv"
	"strings"
)

// A site is a place in a file with one change of it. The change happens while its mutant is switched on. The text of
// the site stays in the file: before stands ahead of it, after behind it.
type site struct {
	id         int
	file       *file
	start, end int // offsets in the file
	line       int
	change     string

	before, after string
}

// A file is one file of the package under test.
type file struct {
	name string // its path
	text string
	tree *ast.File
	fset *token.FileSet
	info *types.Info
	pkg  *types.Package
}

// sites returns the changes that the program knows for f, in the order of the text. Their ids begin after last.
func (f *file) sites(last int) []*site {
	v := &visitor{file: f, last: last}
	ast.Walk(v, f.tree)
	return v.found
}

// A visitor collects the sites of a file.
type visitor struct {
	*file
	last    int
	found   []*site
	results []*types.Tuple // of the functions around, the innermost last
}

func (v *visitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case nil:
		return nil
	case *ast.GenDecl:
		if n.Tok == token.CONST || n.Tok == token.IMPORT {
			return nil // what a constant is made of must be constant
		}
	case *ast.ArrayType:
		return nil // its length too
	case *ast.FuncDecl:
		v.function(v.info.Defs[n.Name].Type(), n.Body)
		return nil
	case *ast.FuncLit:
		v.function(v.info.TypeOf(n), n.Body)
		return nil
	case *ast.BlockStmt:
		v.drops(n.List)
	case *ast.CaseClause:
		v.drops(n.Body)
	case *ast.CommClause:
		v.drops(n.Body)
	case *ast.IfStmt:
		v.negate(n.Cond)
	case *ast.ForStmt:
		v.negate(n.Cond)
	case *ast.ReturnStmt:
		v.returned(n)
	case *ast.BinaryExpr:
		v.binary(n)
	case *ast.BasicLit:
		v.number(n)
	case *ast.Ident:
		obj := v.info.Uses[n]
		if obj != nil && obj.Parent() == types.Universe && (n.Name == "true" || n.Name == "false") {
			v.xor(n, map[string]string{"true": "false", "false": "true"}[n.Name])
		}
	}
	return v
}

func (v *visitor) function(t types.Type, body *ast.BlockStmt) {
	if body == nil {
		return
	}
	v.results = append(v.results, t.(*types.Signature).Results())
	ast.Walk(v, body)
	v.results = v.results[:len(v.results)-1]
}

// id stands for the number of the mutant in a text. No Go file has such a byte.
const id = "\x00"

// add notes the change of n to instead. In the texts around it, id stands for its number.
func (v *visitor) add(n ast.Node, instead, before, after string) {
	v.last++
	p := v.fset.Position(n.Pos())
	s := &site{id: v.last, file: v.file, start: p.Offset, end: v.offset(n.End()), line: p.Line}
	s.change = oneLine(v.source(n)) + " -> " + oneLine(instead)
	number := strings.NewReplacer(id, strconv.Itoa(s.id))
	s.before, s.after = number.Replace(before), number.Replace(after)
	v.found = append(v.found, s)
}

func (v *visitor) offset(p token.Pos) int { return v.fset.Position(p).Offset }

func (v *visitor) source(n ast.Node) string { return v.text[v.offset(n.Pos()):v.offset(n.End())] }

func oneLine(text string) string {
	const most = 60
	if text = strings.Join(strings.Fields(text), " "); len(text) > most {
		text = text[:most] + "…"
	}
	return text
}

// drops has a mutant for each statement of a list that can go without the rest of the list failing to compile.
func (v *visitor) drops(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if isPanic(s) {
				continue // the function may have to end with it
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || onlyBlank(s) {
				continue
			}
		case *ast.BranchStmt:
			if s.Tok != token.BREAK && s.Tok != token.CONTINUE {
				continue
			}
		case *ast.ReturnStmt:
			if len(s.Results) > 0 || v.results[len(v.results)-1].Len() > 0 {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt, *ast.DeferStmt:
		default:
			continue
		}
		v.add(s, "nothing", "if !_mutant("+id+") { ", " }")
	}
}

func isPanic(s *ast.ExprStmt) bool {
	call, ok := s.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "panic"
}

func onlyBlank(s *ast.AssignStmt) bool {
	for _, x := range s.Lhs {
		if name, ok := x.(*ast.Ident); !ok || name.Name != "_" {
			return false
		}
	}
	return true
}

// negate has a mutant for a condition. A condition with == or != has one already, from binary.
func (v *visitor) negate(cond ast.Expr) {
	if cond == nil {
		return
	}
	switch x := ast.Unparen(cond).(type) {
	case *ast.BinaryExpr:
		if x.Op == token.EQL || x.Op == token.NEQ {
			return
		}
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			return
		}
	}
	v.xor(cond, "!("+v.source(cond)+")")
}

// xor has a mutant for the opposite of x.
func (v *visitor) xor(x ast.Expr, instead string) { v.add(x, instead, "(_mutant("+id+") != (", "))") }

// instead has a mutant that computes another boolean than x.
func (v *visitor) instead(x ast.Expr, other string) {
	mutant := "_mutant(" + id + ")"
	before := v.typeName(v.info.TypeOf(x)) + "(" + mutant + " && bool(" + other + ") || !" + mutant + " && bool("
	v.add(x, other, before, "))")
}

var comparisons = map[token.Token]string{
	token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">",
	token.EQL: "!=", token.NEQ: "==", token.LAND: "||", token.LOR: "&&",
}

func (v *visitor) binary(x *ast.BinaryExpr) {
	left, right := v.source(x.X), v.source(x.Y)
	op, known := comparisons[x.Op]
	switch {
	case v.info.Types[x].Value != nil:
		return // a constant must stay one
	case x.Op == token.EQL || x.Op == token.NEQ:
		v.xor(x, left+" "+op+" "+right)
	case known:
		v.instead(x, left+" "+op+" "+right)
	case x.Op == token.ADD || x.Op == token.SUB:
		if b, ok := v.info.TypeOf(x).Underlying().(*types.Basic); !ok || b.Info()&types.IsNumeric == 0 {
			return
		}
		op = map[token.Token]string{token.ADD: "-", token.SUB: "+"}[x.Op]
		other := left + " " + op + " (" + right + ")"
		v.add(x, other, "_instead("+id+", "+other+", ", ")")
	}
}

// number has a mutant that adds one to a whole number.
func (v *visitor) number(lit *ast.BasicLit) {
	t := v.info.TypeOf(lit)
	if lit.Kind != token.INT || t == nil {
		return
	}
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
		return
	}
	v.add(lit, lit.Value+" + 1", "(", " + _one["+v.typeName(t)+"]("+id+"))")
}

// typeName returns the name that the file has for a type.
func (v *visitor) typeName(t types.Type) string {
	if b, ok := t.(*types.Basic); ok && b.Kind() == types.UntypedBool {
		return "bool"
	}
	return types.TypeString(t, func(p *types.Package) string {
		if p == v.pkg {
			return ""
		}
		return v.imported(p)
	})
}

// imported returns the name that the file has for another package. Without an import the name does not compile.
func (v *visitor) imported(p *types.Package) string {
	for _, spec := range v.tree.Imports {
		if strings.Trim(spec.Path.Value, `"`) != p.Path() {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return p.Name()
	}
	return path.Base(p.Path())
}

// returned has a mutant that returns nil instead of an error, and one for the opposite of a returned boolean.
func (v *visitor) returned(s *ast.ReturnStmt) {
	want := v.results[len(v.results)-1]
	if len(s.Results) == 0 || want.Len() == 0 {
		return
	}
	last := s.Results[len(s.Results)-1]
	t := want.At(want.Len() - 1).Type()
	if types.Identical(t, types.Typ[types.Bool]) && len(s.Results) == want.Len() {
		v.negateReturned(last)
	}
	if !types.Identical(t, types.Universe.Lookup("error").Type()) {
		return
	}
	if name, ok := last.(*ast.Ident); ok && name.Name == "nil" {
		return
	}
	instead, body := v.withoutError(s, want.Len())
	v.add(s, instead, "if _mutant("+id+") { "+body+" }; ", "")
}

func (v *visitor) negateReturned(x ast.Expr) {
	switch x := ast.Unparen(x).(type) {
	case *ast.BinaryExpr:
		if x.Op == token.EQL || x.Op == token.NEQ {
			return
		}
	case *ast.Ident:
		if x.Name == "true" || x.Name == "false" {
			return
		}
	}
	v.xor(x, "!("+v.source(x)+")")
}

// withoutError returns statements that do what s does and return nil for the error, and how the return reads.
func (v *visitor) withoutError(s *ast.ReturnStmt, results int) (reads, body string) {
	if len(s.Results) < results { // return f()
		var names []string
		for i := range results - 1 {
			names = append(names, fmt.Sprintf("_r%d", i))
		}
		all := strings.Join(names, ", ")
		return "nil for the error of " + v.source(s.Results[0]),
			all + ", _ := " + v.source(s.Results[0]) + "; return " + all + ", nil"
	}
	var kept []string
	for _, x := range s.Results[:results-1] {
		kept = append(kept, v.source(x))
	}
	last := s.Results[results-1]
	instead := "return " + strings.Join(append(kept, "nil"), ", ")
	reads = instead
	if _, ok := last.(*ast.CallExpr); ok && results == 1 { // it is called all the same
		reads = "nil for the error of " + v.source(last)
	}
	return reads, "_ = " + v.source(last) + "; " + instead
}
