package jsontype

import (
	"fmt"
	"reflect"
)

// Check returns the parts of t that would not come back the same, or nil. It lists them in the order of the fields, as
// "State.Orders[].note: unexported field". A type that occurs twice has its faults listed at its first place. The other
// places refer to the first. A root without a name is "S".
//
// If a type has both its own marshaling and its own unmarshaling, Check trusts them.
func Check(t reflect.Type) []string {
	c := checker{met: make(map[visit]meeting)}
	c.walk(rootName(t), t, true)
	return c.faults
}

func rootName(t reflect.Type) string {
	for t.Name() == "" && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Name() == "" {
		return "S"
	}
	return t.Name()
}

type checker struct {
	met    map[visit]meeting
	faults []string
}

// A visit is the key of a verdict. If encoding/json can take the address, it finds more methods.
type visit struct {
	t           reflect.Type
	addressable bool
}

type meeting struct {
	path   string
	faulty bool
}

func (c *checker) fault(path, format string, args ...any) {
	c.faults = append(c.faults, path+": "+fmt.Sprintf(format, args...))
}

// walk visits each named type with parts once. Only such types can contain themselves.
func (c *checker) walk(path string, t reflect.Type, addressable bool) {
	if t.Name() == "" || !hasParts(t) {
		c.judge(path, t, addressable)
		return
	}
	v := visit{t, addressable}
	if m, again := c.met[v]; again {
		if m.faulty {
			c.fault(path, "%v, see %s", t, m.path)
		}
		return
	}
	before := len(c.faults)
	c.met[v] = meeting{path: path}
	c.judge(path, t, addressable)
	c.met[v] = meeting{path, len(c.faults) > before}
}

func hasParts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Pointer:
		return true
	}
	return false
}

func (c *checker) judge(path string, t reflect.Type, addressable bool) {
	if c.marshals(path, t, addressable) {
		return
	}
	switch kind := t.Kind(); kind {
	case reflect.Struct:
		c.walkFields(path, t, addressable)
	case reflect.Map:
		c.checkKey(path, t.Key())
		c.walk(path+"[]", t.Elem(), false)
	case reflect.Slice:
		c.walk(path+"[]", t.Elem(), true)
	case reflect.Array:
		c.walk(path+"[]", t.Elem(), addressable)
	case reflect.Pointer:
		c.walk(path, t.Elem(), true)
	case reflect.Interface:
		c.fault(path, "interface, and JSON does not keep what is in it: json.RawMessage does")
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		c.fault(path, "%v has no JSON", kind)
	}
}

// checkKey reports a fault unless a key is written and read in the same way.
func (c *checker) checkKey(path string, key reflect.Type) {
	writes, reads := key.Implements(textMarshaler), reflect.PointerTo(key).Implements(textUnmarshaler)
	switch kind := key.Kind(); {
	case kind == reflect.String:
	case kind == reflect.Interface, kind == reflect.Pointer:
		c.fault(path, "%v as a key comes back as another", kind)
	case writes && reads:
	case writes:
		c.fault(path, "key %v has MarshalText without UnmarshalText", key)
	case reads:
		c.fault(path, "key %v has UnmarshalText without MarshalText", key)
	case reflect.Int <= kind && kind <= reflect.Uintptr:
	default:
		c.fault(path, "%v cannot be a key in JSON", key)
	}
}
