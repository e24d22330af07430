package jsontype

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Members knows which members of a document a value of a type keeps. The zero Members is for a type that keeps
// everything.
type Members struct {
	root  *node
	shape string
}

// A node is a type with parts that could be lost. If a type keeps all of its JSON, it has no node.
type node struct {
	kind kind

	// most is how many elements an array has.
	most int

	// parts are the fields of a struct, in their order, or the one type of all elements.
	parts []part

	// exact and folded find a field by its name in JSON, and by that name in folded case.
	exact, folded map[string]int

	// lossy says that a document may hold something that a value of the type does not keep.
	lossy bool
}

type part struct {
	name    string
	written []byte // the name in a document, with the colon
	node    *node
}

type kind uint8

const (
	structure kind = iota // an object whose members are fields
	list                  // an array of any length
	bounded               // an array of most elements
	keyed                 // an object with any members
)

// MembersOf returns the Members of t. A type with its own unmarshaling is taken to keep everything. The result for a
// type is made once.
func MembersOf(t reflect.Type) Members {
	if m, made := made.Load(t); made {
		return m.(Members)
	}
	m := membersOf(t)
	made.Store(t, m)
	return m
}

var made sync.Map // of Members, by reflect.Type

func membersOf(t reflect.Type) Members {
	c := compiler{nodes: make(map[reflect.Type]*node), numbers: make(map[reflect.Type]int)}
	root := c.node(t)
	for _, n := range c.all {
		n.lossy = n.loses(make(map[*node]bool))
	}
	return Members{root: root, shape: c.shape.String()}
}

// Shape returns a description of what a value of the type keeps. Two types of one shape read each other's documents
// without a loss. The description is the same in every process.
func (m Members) Shape() string { return m.shape }

// loses reports whether n, or a part of n, may lose something.
func (n *node) loses(seen map[*node]bool) bool {
	if n.kind == structure || n.kind == bounded {
		return true
	}
	if seen[n] {
		return false
	}
	seen[n] = true
	for _, p := range n.parts {
		if p.node != nil && p.node.loses(seen) {
			return true
		}
	}
	return false
}

// A compiler makes the nodes of a type, and describes them on the way.
type compiler struct {
	nodes   map[reflect.Type]*node
	numbers map[reflect.Type]int // of the types that were met, in order
	all     []*node
	shape   strings.Builder
}

// node returns the node of t; nil if a value of t keeps everything.
func (c *compiler) node(t reflect.Type) *node {
	for t.Kind() == reflect.Pointer {
		if c.again(t) {
			return nil // a type of pointers to itself
		}
		t = t.Elem()
	}
	if reads(t) {
		c.shape.WriteString("<" + t.PkgPath() + "." + t.String() + ">")
		return nil
	}
	if c.again(t) {
		return c.nodes[t]
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.structure(t)
	case reflect.Map:
		c.shape.WriteString("map " + t.Key().String())
		return c.elements(t, keyed)
	case reflect.Slice:
		return c.elements(t, list)
	case reflect.Array:
		c.shape.WriteString(strconv.Itoa(t.Len()))
		return c.elements(t, bounded)
	}
	c.shape.WriteString(t.Kind().String())
	return nil
}

// again reports whether t was met before. It remembers types that can contain themselves.
func (c *compiler) again(t reflect.Type) bool {
	if t.Name() == "" || !hasParts(t) {
		return false
	}
	number, met := c.numbers[t]
	if met {
		fmt.Fprintf(&c.shape, "#%d", number)
		return true
	}
	c.numbers[t] = len(c.numbers)
	return false
}

// reads reports whether t has its own unmarshaling.
func reads(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// begin notes the node of t before its parts are known, because they may contain t.
func (c *compiler) begin(t reflect.Type, k kind) *node {
	n := &node{kind: k}
	c.nodes[t] = n
	c.all = append(c.all, n)
	return n
}

func (c *compiler) elements(t reflect.Type, k kind) *node {
	n := c.begin(t, k)
	if k == bounded {
		n.most = t.Len()
	}
	c.shape.WriteString("[")
	n.parts = []part{{name: "[]", node: c.node(t.Elem())}}
	c.shape.WriteString("]")
	return n
}

func (c *compiler) structure(t reflect.Type) *node {
	n := c.begin(t, structure)
	n.exact, n.folded = make(map[string]int), make(map[string]int)
	c.shape.WriteString("{")
	for _, f := range stored(t) {
		c.shape.WriteString(strconv.Quote(f.name) + strings.Join(f.options, ",") + " ")
		i := len(n.parts)
		n.parts = append(n.parts, part{f.name, []byte(`"` + f.name + `":`), c.node(f.t)})
		c.shape.WriteString(";")
		n.exact[f.name] = i
		if _, taken := n.folded[fold(f.name)]; !taken {
			n.folded[fold(f.name)] = i
		}
	}
	c.shape.WriteString("}")
	return n
}

// stored returns the fields that encoding/json stores of a struct, in order.
func stored(t reflect.Type) []field {
	fields := new(checker).fields(level{t: t})
	byName := make(map[string][]field)
	for _, f := range fields {
		byName[f.name] = append(byName[f.name], f)
	}
	var all []field
	for _, f := range fields {
		if wins(f, byName[f.name]) {
			all = append(all, f)
		}
	}
	return all
}
