// Package ddl finds out what the text of a schema creates.
//
// It knows as much of SQL as the schemas of stores need: comments, quoted names, strings, PostgreSQL's dollar quotes,
// and the statements CREATE TABLE, CREATE INDEX, CREATE FUNCTION and ALTER TABLE ADD COLUMN. It does not look into
// strings, except for what a DO block creates under a condition: an index, a function or a column.
package ddl

import (
	"slices"
	"strings"
)

// An Object is a table, an index, a function, or a column that is added to a table.
type Object struct {
	Kind    string // "TABLE", "INDEX", "FUNCTION" or "COLUMN"
	Name    string // without its schema and quotes
	Table   string // the name of the table of an index or a column
	Columns []string

	// sql is the name as a statement has to write it.
	sql string
}

// Objects returns the objects that text creates, in its order.
func Objects(text string) []Object {
	var objects []Object
	for s := range split(lex(text)) {
		if o, ok := parse(s); ok {
			objects = append(objects, o)
		}
		objects = append(objects, conditional(s)...)
	}
	return objects
}

// conditional returns the indexes, functions and columns that a DO block creates right after a THEN.
func conditional(s []token) []Object {
	if len(s) < 2 || !strings.EqualFold(s[0].text, "DO") || !dollarPattern.MatchString(s[1].text) {
		return nil
	}
	quote := dollarPattern.FindString(s[1].text)
	var objects []Object
	for inside := range split(lex(strings.TrimSuffix(s[1].text[len(quote):], quote))) {
		then := 1 + slices.IndexFunc(inside, func(t token) bool { return strings.EqualFold(t.text, "THEN") })
		if o, ok := parse(inside[then:]); ok && then > 0 && o.Kind != "TABLE" {
			objects = append(objects, o)
		}
	}
	return objects
}

// Drop returns statements that drop what text creates and is still there, the last first. A column goes with its table.
func Drop(text string) []string {
	var drops []string
	for _, o := range slices.Backward(Objects(text)) {
		if o.Kind != "COLUMN" {
			drops = append(drops, "DROP "+o.Kind+" IF EXISTS "+o.sql+";")
		}
	}
	return drops
}

// Split returns the statements of text, each with the comments before it and the semicolon after it.
func Split(text string) []string {
	var statements []string
	start := 0
	for s := range split(lex(text)) {
		end := s[len(s)-1].end
		statements = append(statements, strings.TrimSpace(text[start:end]))
		start = end
	}
	return statements
}

// split yields the tokens of each statement, which end with a semicolon or with the text.
func split(tokens []token) func(yield func([]token) bool) {
	return func(yield func([]token) bool) {
		for len(tokens) > 0 {
			n := 1 + slices.IndexFunc(tokens, func(t token) bool { return t.text == ";" })
			if n == 0 {
				n = len(tokens)
			}
			if !yield(tokens[:n]) {
				return
			}
			tokens = tokens[n:]
		}
	}
}

// A parser reads the tokens of one statement.
type parser []token

func parse(s []token) (o Object, ok bool) {
	p := parser(s)
	if p.skip("ALTER") {
		return p.added()
	}
	if !p.skip("CREATE") {
		return o, false
	}
	for p.skip("UNIQUE") || p.skip("UNLOGGED") || p.skip("OR") || p.skip("REPLACE") {
	}
	switch {
	case p.skip("TABLE"):
		o.Kind = "TABLE"
		_, o.Name, o.sql = p.name()
		o.Columns = p.columns()
	case p.skip("INDEX"):
		o.Kind = "INDEX"
		p.skip("CONCURRENTLY")
		_, o.Name, o.sql = p.name()
		if !p.skip("ON") {
			return o, false // it has no name of its own
		}
		p.skip("ONLY")
		var schema string
		if schema, o.Table, _ = p.name(); schema != "" {
			o.sql = schema + "." + o.sql // an index lives where its table does
		}
	case p.skip("FUNCTION"):
		o.Kind = "FUNCTION"
		_, o.Name, o.sql = p.name()
	default:
		return o, false
	}
	return o, true
}

// added reads the column that an ALTER TABLE adds.
func (p *parser) added() (o Object, ok bool) {
	if !p.skip("TABLE") {
		return o, false
	}
	p.skip("ONLY")
	o.Kind = "COLUMN"
	_, o.Table, _ = p.name()
	if !p.skip("ADD") || !p.skip("COLUMN") {
		return o, false
	}
	_, o.Name, o.sql = p.name()
	return o, true
}

// skip reports whether the next token is word, which it then passes over.
func (p *parser) skip(word string) bool {
	if len(*p) == 0 || !strings.EqualFold((*p)[0].text, word) {
		return false
	}
	*p = (*p)[1:]
	return true
}

func (p *parser) next() string {
	if len(*p) == 0 {
		return ""
	}
	text := (*p)[0].text
	*p = (*p)[1:]
	return text
}

// name reads a name, perhaps qualified: its schema as it is written, the name without quotes, and the whole.
func (p *parser) name() (schema, name, sql string) {
	if p.skip("IF") {
		p.skip("NOT")
		p.skip("EXISTS")
	}
	name = p.next()
	sql = name
	if p.skip(".") {
		schema, name = name, p.next()
		sql = schema + "." + name
	}
	return schema, unquote(name), sql
}

// What begins a part of a table's definition that is not a column.
var constraints = []string{"CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "EXCLUDE", "LIKE"}

// columns reads the columns in the parentheses that follow a table's name.
func (p *parser) columns() []string {
	if !p.skip("(") {
		return nil
	}
	var columns []string
	first := true // of its part
	for depth := 1; depth > 0 && len(*p) > 0; {
		t := p.next()
		if first && !slices.Contains(constraints, strings.ToUpper(t)) {
			columns = append(columns, unquote(t))
		}
		first = t == "," && depth == 1
		switch t {
		case "(":
			depth++
		case ")":
			depth--
		}
	}
	return columns
}

func unquote(name string) string {
	if q := name[:min(1, len(name))]; q == `"` || q == "`" {
		return strings.ReplaceAll(strings.TrimSuffix(name[1:], q), q+q, q)
	}
	return name
}
