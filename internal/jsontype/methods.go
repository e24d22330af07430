package jsontype

import (
	"encoding"
	"encoding/json"
	"reflect"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// marshals reports whether methods write t. Then walk need not look into t.
func (c *checker) marshals(path string, t reflect.Type, addressable bool) bool {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface {
		// walk judges a pointer by its target, which has the same methods.
		return false
	}
	if from := embeddedMethods(t); from != "" {
		c.fault(path, "the embedded %s has its own marshaling, which leaves out the other fields", from)
		return true
	}
	ptr := reflect.PointerTo(t)
	writer, reader := jsonMarshaler, jsonUnmarshaler
	if !ptr.Implements(writer) {
		writer, reader = textMarshaler, textUnmarshaler
	}
	switch {
	case !ptr.Implements(writer):
		return false
	case !ptr.Implements(reader) && !ptr.Implements(jsonUnmarshaler):
		c.fault(path, "%s without %s", writer.Method(0).Name, reader.Method(0).Name)
	case !addressable && !t.Implements(writer):
		c.fault(path, "%s needs a pointer, and there is none to what is in a map", writer.Method(0).Name)
	}
	return true
}

// embeddedMethods returns the name of the embedded field whose methods marshal all of t, or "". If t has a method of
// its own that hides them, embeddedMethods cannot tell and refuses t too. A name for the field makes t fit.
func embeddedMethods(t reflect.Type) string {
	if t.Kind() != reflect.Struct || t.NumField() < 2 {
		return ""
	}
	for i := range t.NumField() {
		f := t.Field(i)
		for _, m := range []reflect.Type{jsonMarshaler, jsonUnmarshaler, textMarshaler, textUnmarshaler} {
			if f.Anonymous && reflect.PointerTo(t).Implements(m) &&
				(f.Type.Implements(m) || reflect.PointerTo(f.Type).Implements(m)) {
				return f.Name
			}
		}
	}
	return ""
}

// writesItself reports whether t, or the target of t, has its own marshaling.
func writesItself(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}
