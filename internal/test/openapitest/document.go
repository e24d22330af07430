// Package openapitest checks a handler against its OpenAPI document, and the document against the handler. It is for
// tests of this repository.
package openapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Document is an OpenAPI document, as a handler serves it.
type Document struct {
	Root map[string]any

	// Stream checks a body of server-sent events. The schema is that of one of them.
	Stream func(schema any, body []byte) error

	mu   sync.Mutex
	seen map[string]bool // "POST /sessions/{id}/turns 200"
}

// New returns the document.
func New(doc []byte) (*Document, error) {
	d := &Document{seen: make(map[string]bool)}
	return d, json.Unmarshal(doc, &d.Root)
}

// Unseen returns the responses of the document that Check has not seen.
func (d *Document) Unseen() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, op := range d.Operations() {
		responses, _ := op.at["responses"].(map[string]any)
		for status := range responses {
			if at := op.Method + " " + op.Path + " " + status; !d.seen[at] {
				all = append(all, at)
			}
		}
	}
	return all
}

// At returns a part of the document; references on the way are followed.
func (d *Document) At(v any, path ...string) any {
	for {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := m["$ref"].(string); ok {
			v = d.At(d.Root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			continue
		}
		if len(path) == 0 {
			return m
		}
		if next, ok := m[path[0]].(string); ok && len(path) == 1 {
			return next
		}
		if next, ok := m[path[0]].([]any); ok && len(path) == 1 {
			return next
		}
		v, path = m[path[0]], path[1:]
	}
}

// pathOf returns the path of the document that a path of a request fits; "" if there is none.
func (d *Document) pathOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	got := strings.Split(path, "/")
	paths, _ := d.At(d.Root, "paths").(map[string]any)
	for name := range paths {
		if slices.EqualFunc(strings.Split(name, "/"), got, func(want, got string) bool {
			return want == got || strings.HasPrefix(want, "{")
		}) {
			return name
		}
	}
	return ""
}

// Check says what of a response the document does not have.
func (d *Document) Check(method, path string, status int, kind string, body []byte) error {
	name := d.pathOf(path)
	route := method + " " + name
	operation := d.At(d.Root, "paths", name, strings.ToLower(method))
	if operation == nil {
		if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not in the document, and is %d", method, path, status)
		}
		return d.Valid(d.At(d.Root, "components", "schemas", "Problem"), body)
	}
	response := d.At(operation, "responses", strconv.Itoa(status))
	if response == nil {
		return fmt.Errorf("%s has no response %d", route, status)
	}
	d.mu.Lock()
	d.seen[route+" "+strconv.Itoa(status)] = true
	d.mu.Unlock()
	if status == http.StatusNoContent {
		if len(body) > 0 {
			return fmt.Errorf("%s: 204 with a body", route)
		}
		return nil
	}
	schema := d.At(response, "content", kind, "schema")
	if schema == nil {
		return fmt.Errorf("%s %d has no content %q", route, status, kind)
	}
	if kind == "text/event-stream" && d.Stream != nil {
		return d.Stream(schema, body)
	}
	return d.Valid(schema, body)
}

// Valid says where a document does not fit a schema.
func (d *Document) Valid(schema any, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return d.fits(schema, v, "")
}

// fits says where a value does not fit a schema. It knows the keywords that the document uses.
func (d *Document) fits(schema, v any, where string) error {
	s, ok := d.At(schema).(map[string]any)
	if !ok {
		return fmt.Errorf("%s: no schema", where)
	}
	if any, ok := s["anyOf"].([]any); ok {
		var errs []error
		for _, each := range any {
			err := d.fits(each, v, where)
			if err == nil {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	}
	if values, ok := s["enum"].([]any); ok && !slices.Contains(values, v) {
		return fmt.Errorf("%s: %v is none of %v", where, v, values)
	}
	wrong := fmt.Errorf("%s: %v is no %v", where, v, s["type"])
	switch s["type"] {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		return d.fitsObject(s, m, where)
	case "array":
		all, ok := v.([]any)
		if !ok {
			return wrong
		}
		for i, each := range all {
			if err := d.fits(s["items"], each, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	case "string":
		text, ok := v.(string)
		if !ok {
			return wrong
		}
		if s["format"] == "date-time" {
			_, err := time.Parse(time.RFC3339, text)
			return err
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) {
			return wrong
		}
	case "number":
		if _, ok := v.(float64); !ok {
			return wrong
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			return wrong
		}
	}
	return nil
}

func (d *Document) fitsObject(s, m map[string]any, where string) error {
	required, _ := s["required"].([]any)
	for _, name := range required {
		if _, ok := m[name.(string)]; !ok {
			return fmt.Errorf("%s has no %v", where, name)
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for name, v := range m {
		schema, ok := properties[name]
		if other, open := s["additionalProperties"].(map[string]any); !ok && open {
			schema, ok = other, true
		}
		if s["additionalProperties"] == false && !ok {
			return fmt.Errorf("%s has %q, which the schema has not", where, name)
		}
		if !ok {
			continue
		}
		if err := d.fits(schema, v, where+"."+name); err != nil {
			return err
		}
	}
	return nil
}
