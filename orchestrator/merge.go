package orchestrator

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// A change holds what a branch of a fan-out did to the state that it was given. It has the fields that the branch
// changed, and a state in which only these fields are set. It is stored as JSON, and costs no more than the changed
// fields.
//
// A field is a field of a struct, or of an embedded struct, or a key of a map. Any other state is one field, "".
type change struct {
	Fields []string        `json:"fields,omitempty"`
	State  json.RawMessage `json:"state,omitempty"`

	// by names the branch, in the error of a conflict.
	by string
}

// changes compares the state that a branch returned with the state that it was given.
func changes[S any](before, after S) (change, error) {
	a, b := body(&before), body(&after)
	names := changedFields(a, b)
	if len(names) == 0 {
		return change{}, nil
	}
	var only S
	part := body(&only)
	for _, name := range names {
		setField(part, name, field(b, name))
	}
	raw, err := encode(&only)
	return change{Fields: names, State: raw}, err
}

func changedFields(a, b reflect.Value) []string {
	var names []string
	for _, name := range fieldNames(a, b) {
		if !sameValue(field(a, name), field(b, name)) {
			names = append(names, name)
		}
	}
	return names
}

// onto returns state with the changes of c.
func onto[S any](state S, c change) (S, error) {
	if len(c.Fields) == 0 {
		return state, nil
	}
	part, err := decode[S](c.State)
	if err != nil {
		return state, err
	}
	from, to := body(&part), body(&state)
	known := fieldNames(to, from)
	for _, name := range c.Fields {
		if !slices.Contains(known, name) { // a map has the keys of both: what was deleted is in state
			return state, fmt.Errorf("state has no field %q", name)
		}
		setField(to, name, field(from, name))
	}
	return state, nil
}

// mergeChanges applies the changes of the branches to base. If two branches changed the same field, it is a conflict,
// even if they agree: each may have counted one up.
func mergeChanges[S any](base S, branches []change) (S, error) {
	changed := make(map[string]string)
	for _, c := range branches {
		for _, name := range c.Fields {
			by, twice := changed[name]
			switch {
			case twice && name == "":
				return base, fmt.Errorf("%w: the state, by %s and %s", ErrMerge, by, c.by)
			case twice:
				return base, fmt.Errorf("%w: %q, by %s and %s", ErrMerge, name, by, c.by)
			}
			changed[name] = c.by
		}
		var err error
		if base, err = onto(base, c); err != nil {
			return base, err
		}
	}
	return base, nil
}

// body returns the value that holds the fields of a state.
func body[S any](state *S) reflect.Value { return reflect.ValueOf(state).Elem() }

var marshaler = reflect.TypeFor[json.Marshaler]()

// marshals reports whether t has its own marshaling, so that its fields say nothing.
func marshals(t reflect.Type) bool {
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

// hasKeys reports whether t is a map whose keys are text.
func hasKeys(t reflect.Type) bool {
	return t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !marshals(t)
}

func hasFields(t reflect.Type) bool { return t.Kind() == reflect.Struct && !marshals(t) }

// fieldNames returns the names of all fields of two states, in their order.
func fieldNames(a, b reflect.Value) []string {
	switch t := a.Type(); {
	case hasFields(t):
		return structFields(t, "")
	case hasKeys(t):
		var names []string
		for _, v := range []reflect.Value{a, b} {
			for _, key := range v.MapKeys() {
				names = append(names, key.String())
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return []string{""}
}

// structFields names the fields of a struct by their paths. As in JSON, the fields of embedded structs are fields of
// their own.
func structFields(t reflect.Type, prefix string) []string {
	var names []string
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == "-" && f.Tag.Get("json") == "-":
		case f.Anonymous && tag == "" && hasFields(f.Type):
			names = append(names, structFields(f.Type, prefix+f.Name+".")...)
		case f.IsExported():
			names = append(names, prefix+f.Name)
		}
	}
	return names
}

// field returns the value of a field. If a map has no such key, it returns the zero Value.
func field(v reflect.Value, name string) reflect.Value {
	switch {
	case hasFields(v.Type()):
		for part := range strings.SplitSeq(name, ".") {
			v = v.FieldByName(part)
		}
		return v
	case hasKeys(v.Type()):
		return v.MapIndex(reflect.ValueOf(name).Convert(v.Type().Key()))
	}
	return v
}

// setField sets a field. The zero Value deletes a key.
func setField(v reflect.Value, name string, value reflect.Value) {
	switch {
	case hasKeys(v.Type()):
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), value)
	default:
		field(v, name).Set(value)
	}
}

// sameValue reports whether two values are equal, directly or as JSON. A MarshalJSON that ranges over a map writes one
// value in many ways.
func sameValue(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return true
	}
	x, errX := plainJSON(a)
	y, errY := plainJSON(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// plainJSON decodes the JSON of a value, so that the order of members does not matter.
func plainJSON(v reflect.Value) (plain any, err error) {
	value := v.Interface()
	if v.CanAddr() {
		value = v.Addr().Interface() // the methods may have a pointer receiver
	}
	raw, err := encode(&value)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	err = d.Decode(&plain)
	return plain, err
}
