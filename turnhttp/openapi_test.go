package turnhttp_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/turnhttp"
)

func scan(r io.Reader, f func(line string) bool) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		if !f(lines.Text()) {
			return nil
		}
	}
	return lines.Err()
}

// A document is an OpenAPI document, as the handler serves it.
type document struct {
	root map[string]any

	mu   sync.Mutex
	seen map[string]bool // "POST /sessions/{id}/turns 200"
}

func openAPI(t *testing.T) *document {
	t.Helper()
	return openAPIOf(t, func(doc []byte) []byte { return doc })
}

// openAPIOf returns the document after a change.
func openAPIOf(t *testing.T, change func([]byte) []byte) *document {
	t.Helper()
	w := newWorld()
	h := turnhttp.Handler(w.bot(t, w.definition(), nil), w.options())
	res := request{method: "GET", path: "/openapi.json"}.to(t.Context(), h)
	if res.Code != http.StatusOK {
		t.Fatalf("the document is %d", res.Code)
	}
	return &document{root: decode[map[string]any](t, change(res.Body.Bytes())), seen: make(map[string]bool)}
}

// at returns a part of the document; references on the way are followed.
func (d *document) at(v any, path ...string) any {
	for {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := m["$ref"].(string); ok {
			v = d.at(d.root, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
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
func (d *document) pathOf(path string) string {
	path, _, _ = strings.Cut(path, "?")
	got := strings.Split(path, "/")
	paths, _ := d.at(d.root, "paths").(map[string]any)
	for name := range paths {
		if slices.EqualFunc(strings.Split(name, "/"), got, func(want, got string) bool {
			return want == got || strings.HasPrefix(want, "{")
		}) {
			return name
		}
	}
	return ""
}

// check says what of a response the document does not have.
func (d *document) check(method, path string, status int, kind string, body []byte) error {
	name := d.pathOf(path)
	route := method + " " + name
	operation := d.at(d.root, "paths", name, strings.ToLower(method))
	if operation == nil {
		if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
			return fmt.Errorf("%s %s is not in the document, and is %d", method, path, status)
		}
		return d.valid(d.at(d.root, "components", "schemas", "Problem"), body)
	}
	response := d.at(operation, "responses", strconv.Itoa(status))
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
	schema := d.at(response, "content", kind, "schema")
	if schema == nil {
		return fmt.Errorf("%s %d has no content %q", route, status, kind)
	}
	if kind == "text/event-stream" {
		return d.validEvents(body)
	}
	return d.valid(schema, body)
}

// validEvents checks each event of a stream.
func (d *document) validEvents(body []byte) (err error) {
	names := map[string]string{"reply": "Turn", "problem": "Problem"}
	return errors.Join(readEvents(strings.NewReader(string(body)), func(ev event) bool {
		name := names[ev.kind]
		if name == "" {
			name = "Event"
			if !strings.Contains(ev.data, `"kind":"`+ev.kind+`"`) {
				err = fmt.Errorf("event %s has other data: %s", ev.kind, ev.data)
				return false
			}
		}
		if wrong := d.valid(d.at(d.root, "components", "schemas", name), []byte(ev.data)); wrong != nil {
			err = fmt.Errorf("event %s: %w", ev.kind, wrong)
		}
		return err == nil
	}), err)
}

func (d *document) valid(schema any, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return d.fits(schema, v, "")
}

// fits says where a value does not fit a schema. It knows the keywords that the document uses.
func (d *document) fits(schema, v any, where string) error {
	s, ok := d.at(schema).(map[string]any)
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

func (d *document) fitsObject(s, m map[string]any, where string) error {
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
