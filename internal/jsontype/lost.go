package jsontype

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MostLost is how many paths Lost returns at most.
const MostLost = 20

// Lost returns the paths of the members of doc that json.Unmarshal would drop, in order: "orders[].note". It returns
// nil if nothing would be lost. doc is a document that json.Unmarshal has read without an error.
//
// An element that an array has no room for is named by its index: "digest[4]". If two members are for one field, the
// second is named.
func (m Members) Lost(doc []byte) []string {
	if m.root == nil || !m.root.lossy {
		return nil
	}
	w := walker{doc: doc}
	w.value(m.root)
	return w.lost
}

// A walker reads a document beside the nodes of a type. It does not check the JSON. It stops at the end of any
// document.
type walker struct {
	doc  []byte
	pos  int
	path []string // to the value that is read
	lost []string
}

// peek returns the next byte that is no white space; 0 at the end.
func (w *walker) peek() byte {
	for ; w.pos < len(w.doc); w.pos++ {
		switch c := w.doc[w.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// value reads a value of the type of n.
func (w *walker) value(n *node) {
	c := w.peek()
	switch {
	case n == nil || !n.lossy:
		w.skip()
	case c == '{' && n.kind == structure:
		w.fields(n)
	case c == '{' && n.kind == keyed:
		w.keys(n)
	case c == '[' && (n.kind == list || n.kind == bounded):
		w.elements(n)
	default: // null, or a string of bytes
		w.skip()
	}
}

// more goes to the next element of an array or an object, and reports whether there is one.
func (w *walker) more(closing byte) bool {
	if w.pos < len(w.doc) && w.doc[w.pos] == ',' || w.peek() == ',' {
		w.pos++
	}
	c := w.peek()
	if c == closing {
		w.pos++
	}
	return c != closing && c != 0
}

// into reads a value of a part.
func (w *walker) into(p part) {
	if p.node == nil || !p.node.lossy {
		if w.peek() == '"' {
			w.str()
		} else {
			w.skip()
		}
		return
	}
	if w.path == nil {
		w.path = make([]string, 0, 8)
	}
	w.path = append(w.path, p.name)
	w.value(p.node)
	w.path = w.path[:len(w.path)-1]
}

func (w *walker) elements(n *node) {
	w.pos++
	for i := 0; w.more(']'); i++ {
		if n.kind == bounded && i >= n.most {
			if i == n.most {
				w.loses("[" + strconv.Itoa(i) + "]")
			}
			w.skip()
			continue
		}
		w.into(n.parts[0])
	}
}

func (w *walker) keys(n *node) {
	w.pos++
	for w.more('}') {
		w.name()
		w.into(n.parts[0])
	}
}

func (w *walker) fields(n *node) {
	w.pos++
	var seen set
	for expected := 0; w.more('}'); {
		// Mostly the members come in the order of the fields.
		if expected < len(n.parts) && bytes.HasPrefix(w.doc[w.pos:], n.parts[expected].written) && seen.add(expected) {
			w.pos += len(n.parts[expected].written)
			expected++
			w.into(n.parts[expected-1])
			continue
		}
		name := w.name()
		i, known := n.find(name)
		if known && seen.add(i) {
			expected = i + 1
			w.into(n.parts[i])
			continue
		}
		w.loses(plainName(name))
		w.peek()
		w.skip()
	}
}

// name reads the name of a member and the colon. It returns the name as it is written.
func (w *walker) name() []byte {
	start := w.pos
	w.skip()
	name := w.doc[start:w.pos]
	if w.peek() == ':' {
		w.pos++
	}
	if len(name) < len(`""`) {
		return nil
	}
	return name[1 : len(name)-1]
}

// find returns the field of a member.
func (n *node) find(name []byte) (i int, known bool) {
	if i, known = n.exact[string(name)]; known {
		return i, true
	}
	text := plainName(name)
	if i, known = n.exact[text]; known {
		return i, true
	}
	i, known = n.folded[fold(text)]
	return i, known
}

// plainName returns a name without its escapes.
func plainName(name []byte) string {
	if bytes.IndexByte(name, '\\') < 0 {
		return string(name)
	}
	var text string
	if json.Unmarshal(slices.Concat([]byte{'"'}, name, []byte{'"'}), &text) != nil {
		return string(name)
	}
	return text
}

// skip reads a value, or the name of a member, of any type.
func (w *walker) skip() {
	for depth := 0; w.pos < len(w.doc); {
		switch w.doc[w.pos] {
		case '"':
			w.str()
		case '{', '[':
			depth++
			w.pos++
		case '}', ']':
			depth--
			w.pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			w.pos++
			continue // only within a container: a scalar ends before it
		default:
			w.scalar()
		}
		if depth <= 0 {
			return
		}
	}
}

// str reads a string.
func (w *walker) str() {
	w.pos++
	for start := w.pos; w.pos < len(w.doc); {
		i := bytes.IndexByte(w.doc[w.pos:], '"')
		if i < 0 {
			w.pos = len(w.doc)
			return
		}
		end := w.pos + i
		w.pos = end + 1
		if w.doc[end-1] != '\\' {
			return
		}
		escapes := 0
		for end-1-escapes >= start && w.doc[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return
		}
	}
}

// scalar reads a number or a literal.
func (w *walker) scalar() {
	for ; w.pos < len(w.doc); w.pos++ {
		switch w.doc[w.pos] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// loses notes that a part of the current value is lost. The text of a name is bounded, because a document may have any
// name.
func (w *walker) loses(name string) {
	const longest = 100
	if len(name) > longest {
		name = strings.ToValidUTF8(name[:longest], "") + "…"
	}
	path := join(w.path, name)
	if len(w.lost) < MostLost && !slices.Contains(w.lost, path) {
		w.lost = append(w.lost, path)
	}
}

// join returns a path: a, b, [], c are "a.b[].c".
func join(path []string, name string) string {
	var b strings.Builder
	for _, part := range append(slices.Clip(path), name) {
		if b.Len() > 0 && !strings.HasPrefix(part, "[") {
			b.WriteByte('.')
		}
		b.WriteString(part)
	}
	return b.String()
}

// fold returns the same text for all names that encoding/json takes for one field.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, name)
}

// A set holds small numbers.
type set struct {
	few  uint64
	more map[int]bool
}

// add adds i, and reports whether i was not in the set.
func (s *set) add(i int) bool {
	if i >= 64 {
		if s.more == nil {
			s.more = make(map[int]bool)
		}
		known := s.more[i]
		s.more[i] = true
		return !known
	}
	bit := uint64(1) << i
	known := s.few&bit != 0
	s.few |= bit
	return !known
}
