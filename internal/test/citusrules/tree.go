package citusrules

import "strings"

// A node is one node of a parse tree, as PostgreSQL prints it.
type node struct {
	kind string
	// Each value of fields is a *node, a list or a string.
	fields map[string][]any
}

type list []any

// parse reads a tree as PostgreSQL prints it.
func parse(text string) *node {
	tokens := tokenize(text)
	n, _ := item(&tokens).(*node)
	return n
}

// tokenize splits text at space, before and after brackets. A backslash takes away the meaning of the next character.
func tokenize(text string) (tokens []string) {
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			tokens = append(tokens, b.String())
			b.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\n', '\t':
			end()
		case '(', ')', '{', '}':
			end()
			tokens = append(tokens, string(c))
		case '\\':
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	end()
	return tokens
}

// item reads one value. If there is none, it returns nil.
func item(tokens *[]string) any {
	if len(*tokens) == 0 {
		return nil
	}
	t := (*tokens)[0]
	*tokens = (*tokens)[1:]
	switch t {
	case "{":
		return readNode(tokens)
	case "(":
		var l list
		for len(*tokens) > 0 && (*tokens)[0] != ")" {
			l = append(l, item(tokens))
		}
		skip(tokens)
		return l
	}
	return t
}

func readNode(tokens *[]string) *node {
	n := &node{fields: make(map[string][]any)}
	n.kind, _ = item(tokens).(string)
	name := ""
	for len(*tokens) > 0 && (*tokens)[0] != "}" {
		if t := (*tokens)[0]; strings.HasPrefix(t, ":") {
			name = t[1:]
			skip(tokens)
			continue
		}
		n.fields[name] = append(n.fields[name], item(tokens))
	}
	skip(tokens)
	return n
}

func skip(tokens *[]string) {
	if len(*tokens) > 0 {
		*tokens = (*tokens)[1:]
	}
}

// text returns the first word of a field.
func (n *node) text(field string) string {
	if v := n.fields[field]; len(v) > 0 {
		s, _ := v[0].(string)
		return s
	}
	return ""
}

// nodes returns the nodes that are a field, or are listed in it.
func (n *node) nodes(field string) (all []*node) {
	for _, v := range n.fields[field] {
		switch v := v.(type) {
		case *node:
			all = append(all, v)
		case list:
			for _, v := range v {
				if n, ok := v.(*node); ok {
					all = append(all, n)
				}
			}
		}
	}
	return all
}

// walk calls f with each node of v, the outer nodes first. If f returns false for a node, walk does not enter the node.
func walk(v any, f func(*node) bool) {
	switch v := v.(type) {
	case *node:
		if f(v) {
			for _, values := range v.fields {
				for _, v := range values {
					walk(v, f)
				}
			}
		}
	case list:
		for _, v := range v {
			walk(v, f)
		}
	case []*node:
		for _, v := range v {
			walk(v, f)
		}
	}
}
