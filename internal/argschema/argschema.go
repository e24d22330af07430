// Package argschema resolves JSON Schemas that a server, a user or a model may have written. The library follows
// references without a bound: a schema that refers to itself for the same value would end the process.
package argschema

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

const (
	maxChain = 32     // schemas that follow one another for one value
	maxWork  = 10_000 // schemas that are tried for one value
	maxDeep  = 200    // values that are inside one another
)

// A Schema has been resolved, and validating by it ends.
type Schema struct{ resolved *jsonschema.Resolved }

// Resolve resolves a schema. It refuses one that refers to itself for the same value, and references that lead
// elsewhere than to a part of the document, by its JSON Pointer.
func Resolve(s *jsonschema.Schema) (*Schema, error) {
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, err
	}
	w := walk{parts: make(map[string]*jsonschema.Schema), costs: make(map[*jsonschema.Schema]*cost)}
	w.note(s, "")
	if w.refers && w.named {
		return nil, errors.New("it has references, and a part with an $id of its own")
	}
	for _, part := range w.parts {
		if _, err := w.follow(part); err != nil {
			return nil, err
		}
	}
	return &Schema{resolved}, nil
}

// Validate says why a value does not fit. The value is what encoding/json makes of JSON.
func (s *Schema) Validate(v any) error {
	if deeper(v, maxDeep) {
		return fmt.Errorf("more than %d values are inside one another", maxDeep)
	}
	return s.resolved.Validate(v)
}

func deeper(v any, most int) bool {
	if most < 0 {
		return true
	}
	switch v := v.(type) {
	case map[string]any:
		for _, part := range v {
			if deeper(part, most-1) {
				return true
			}
		}
	case []any:
		for _, part := range v {
			if deeper(part, most-1) {
				return true
			}
		}
	}
	return false
}

// A walk knows each part of a schema by its JSON Pointer, and what it costs to validate one value by it.
type walk struct {
	parts         map[string]*jsonschema.Schema
	refers, named bool
	costs         map[*jsonschema.Schema]*cost // nil while a part is followed
}

type cost struct{ chain, work int }

// note notes the parts of a schema. The library has checked that they are a tree.
func (w *walk) note(s *jsonschema.Schema, at string) {
	w.parts[at] = s
	w.refers = w.refers || s.Ref != "" || s.DynamicRef != ""
	w.named = w.named || at != "" && s.ID != ""
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch field.Name {
		case "Items", "ItemsArray":
			name = "items"
		case "DependencySchemas":
			name = "dependencies"
		}
		switch of := v.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			if of != nil {
				w.note(of, at+"/"+name)
			}
		case []*jsonschema.Schema:
			for i, part := range of {
				w.note(part, fmt.Sprint(at, "/", name, "/", i))
			}
		case map[string]*jsonschema.Schema:
			for key, part := range of {
				w.note(part, at+"/"+name+"/"+pointer.Replace(key))
			}
		}
	}
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// follow returns what it costs to validate one value by a part. What is inside the value counts for itself.
func (w *walk) follow(s *jsonschema.Schema) (*cost, error) {
	if c, known := w.costs[s]; known {
		if c == nil {
			return nil, errors.New("it refers to itself for the same value, and would never end")
		}
		return c, nil
	}
	w.costs[s] = nil
	next := []*jsonschema.Schema{s.Not, s.If, s.Then, s.Else}
	for _, all := range [][]*jsonschema.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		next = append(next, all...)
	}
	for _, all := range []map[string]*jsonschema.Schema{s.DependentSchemas, s.DependencySchemas} {
		for _, part := range all {
			next = append(next, part)
		}
	}
	for _, ref := range []string{s.Ref, s.DynamicRef} {
		if ref == "" {
			continue
		}
		u, err := url.Parse(ref)
		if err != nil {
			return nil, err
		}
		part := w.parts[u.Fragment]
		if part == nil || ref[0] != '#' || s.DynamicRef != "" {
			return nil, fmt.Errorf("it refers to %.100q, and that is no part of it", ref)
		}
		next = append(next, part)
	}
	c := &cost{1, 1}
	for _, part := range next {
		if part == nil {
			continue
		}
		of, err := w.follow(part)
		if err != nil {
			return nil, err
		}
		c.chain, c.work = max(c.chain, of.chain+1), c.work+of.work
	}
	if c.chain > maxChain || c.work > maxWork {
		return nil, errors.New("it has too many schemas for one value")
	}
	w.costs[s] = c
	return c, nil
}
