package jsontype

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// A field is a field that encoding/json considers: of a struct, or of a struct embedded in it.
type field struct {
	path        string
	name        string // in JSON
	tagged      bool   // the tag has the name
	depth       int    // number of embeddings
	t           reflect.Type
	addressable bool
	options     []string
}

// A level is a struct whose fields belong to the JSON of the struct that embeds it.
type level struct {
	path        string
	t           reflect.Type
	depth       int
	addressable bool
}

func (c *checker) walkFields(path string, t reflect.Type, addressable bool) {
	fields := c.fields(level{path, t, 0, addressable})
	byName := make(map[string][]field)
	for _, f := range fields {
		byName[f.name] = append(byName[f.name], f)
	}
	for _, f := range fields {
		if !wins(f, byName[f.name]) {
			c.fault(f.path, "not stored: another field is %q in JSON too", f.name)
			continue
		}
		c.checkOptions(f)
		c.walk(f.path, f.t, f.addressable)
	}
}

func (c *checker) checkOptions(f field) {
	if slices.Contains(f.options, "omitempty") && f.t.Kind() == reflect.Map {
		c.fault(f.path, "omitempty makes an empty map come back as nil, which cannot be written to")
	}
	if slices.Contains(f.options, "string") && quotable(f.t) && writesItself(f.t) {
		c.fault(f.path, `json:",string" of a type with its own marshaling cannot be read`)
	}
}

// quotable reports whether json:",string" has an effect on t.
func quotable(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	k := t.Kind()
	return reflect.Bool <= k && k <= reflect.Float64 || k == reflect.String
}

// wins reports whether encoding/json stores f. It stores the least embedded field, or the only one of these with a tag.
func wins(f field, rivals []field) bool {
	for _, r := range rivals {
		if r.path != f.path && (r.depth < f.depth || r.depth == f.depth && (r.tagged || !f.tagged)) {
			return false
		}
	}
	return true
}

// fields returns the fields that encoding/json considers, in order. It reports a fault for each other field.
func (c *checker) fields(l level, outer ...reflect.Type) []field {
	if slices.Contains(outer, l.t) {
		c.fault(l.path, "not stored: %v is embedded in itself", l.t)
		return nil
	}
	outer = append(slices.Clip(outer), l.t)
	var all []field
	for i := range l.t.NumField() {
		sf := l.t.Field(i)
		f := fieldOf(sf, l)
		switch {
		case sf.Name == "_":
		case f.name == "-" && len(f.options) == 0:
			c.fault(f.path, `not stored: json:"-"`)
		case !sf.IsExported() && !(sf.Anonymous && f.t.Kind() == reflect.Struct):
			c.unexported(f.path, sf)
		case sf.Anonymous && !f.tagged && structOf(sf.Type) != nil:
			in := level{f.path, structOf(sf.Type), l.depth + 1, l.addressable || sf.Type.Kind() == reflect.Pointer}
			all = append(all, c.fields(in, outer...)...)
		default:
			all = append(all, f)
		}
	}
	return all
}

func (c *checker) unexported(path string, sf reflect.StructField) {
	if sf.Anonymous && structOf(sf.Type) != nil {
		c.fault(path, "embedded pointer to an unexported struct, which cannot be read")
		return
	}
	c.fault(path, "unexported field")
}

// structOf returns the struct t, or the struct that t points to. For any other type it returns nil.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	return t
}

func fieldOf(sf reflect.StructField, l level) field {
	f := field{
		path: l.path + "." + sf.Name, name: sf.Name, depth: l.depth,
		t: sf.Type, addressable: l.addressable,
	}
	name, options, more := strings.Cut(sf.Tag.Get("json"), ",")
	if more {
		f.options = strings.Split(options, ",")
	}
	if name == "-" || validName(name) {
		f.name, f.tagged = name, true
	}
	return f
}

// validName reports whether encoding/json accepts a name from a tag. If not, encoding/json uses the name of the field.
func validName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", c) && !unicode.IsLetter(c) && !unicode.IsDigit(c)
	})
}
